"""Assembly text ↔ program: `assemble` in two passes, and its inverse `disassemble`.

The first pass, `Parser`, reads lines, encodes instructions, and notes the constants whose value it does not know yet; the second pass,
`Layout.program` in directives.py, fills them in. Every fault of a text is reported in one go.

A line is a label, then an instruction, a directive or a word that stands for instructions. A line that is repeated is looked up as a
whole. Any other line is first taken for an instruction whose operands are in the tables of `instructions.py`; a line that is not, or has
a fault, is read again with the columns of its parts.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

from retrograd.assembler.directives import REGISTERS, Directives, Layout, SymbolTable
from retrograd.assembler.instructions import Instructions, Subroutines, WrittenInstruction
from retrograd.assembler.lexer import MAX_BYTES, Sources, TextFault, decode_text, is_name, parts_of
from retrograd.assembler.verify import verify
from retrograd.isa.diagnostics import PrecisionWarning, Span, nearest, printable
from retrograd.isa.encoding import write
from retrograd.isa.files import read_stream
from retrograd.isa.program import MAX_CODE, Hints, Program
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Q32_32, Format, format_of


class Parser:
    """Reads sources into a layout."""

    def __init__(self, table: Table, w: Format, roots: tuple[Path, ...]) -> None:
        self.sources = Sources(roots)
        self.symbols = SymbolTable(self.sources, w)
        self.layout = Layout(self.sources, self.symbols, table)
        self.instructions = Instructions(self.layout)
        self.forms = self.instructions.forms
        self.directives = Directives(self.layout, self.read).words
        self.subroutines = Subroutines(self.layout).words
        #: line -> (word, column, end) of lines that encode alike wherever they stand, until the format changes
        self.known_lines: dict[str, tuple[int, int, int]] = {}

    def program(self) -> Program:
        """The program of the sources that have been read. Raises AssemblyError."""
        return self.layout.program()

    def read(self, name: str, text: str, path: Path | None) -> None:
        """Read one source, and the files that it includes."""
        known, layout, sources = self.known_lines, self.layout, self.sources
        code, spans = layout.code, layout.spans
        with sources.opened(name, text, path) as file:
            index = file.index
            for number, line in enumerate(file.lines, 1):
                hit = None if layout.in_data else known.get(line)
                if hit is None:
                    sources.line = number
                    self._first_time(line)
                else:
                    word, column, end = hit
                    code.append(word)
                    spans.append((index, number, column, end))
                if len(code) > MAX_CODE:
                    raise sources.stop("RG0116", f"more than {MAX_CODE} instructions", Span(name, number))

    def _first_time(self, line: str) -> None:
        """Carry out a line that is not known, or report its fault."""
        try:
            if not self._by_tables(line):
                self._line(line)
        except TextFault as e:
            hint = e.hint
            if e.name:
                hint = nearest(e.name, self.symbols.names()) or "define it above: its value is needed here"
            self.sources.report(self.sources.position(e.start, e.end), e, hint)

    def _by_tables(self, line: str) -> bool:
        """Append an instruction whose operands are in the tables. False for any other line, and for a fault of the instruction.

        A `;` or a comma in quotes is taken for the end of an operand here. The operand then has an unpaired quote, and is in no table.
        Raises TextFault for the label of an instruction that the tables encode.
        """
        layout, instructions = self.layout, self.instructions
        if layout.in_data:
            return False
        body = line.partition(";")[0].rstrip()
        words = body.split(None, 1)
        if len(words) != 2:
            return False
        name, rest = words
        label = None
        if name[-1] == ":":
            label, words = name[:-1], rest.split(None, 1)
            if len(words) != 2 or not is_name(label):
                return False
            name, rest = words
        operands = rest.split(",")
        word = instructions.look_up(name, operands)
        if word is None:
            return False
        end = len(body)
        if label is None:
            start = body.index(name)
        else:
            at = body.index(label)
            layout.define_label(label, at)
            start = body.index(name, at + len(label))
        if name in instructions.branches:
            fixup = instructions.label_of(name, operands[-1], end)
            layout.emit(word, self.sources.position(start, end), fixup)
            return True
        layout.code.append(word)
        layout.spans.append((self.sources.file.index, self.sources.line, start + 1, end + 1))
        if label is None:
            self.known_lines[line] = word, start + 1, end + 1
        return True

    def _line(self, line: str) -> None:
        found = parts_of(line)
        label, word, rest = found.groups()
        if label is not None:
            self.layout.define_label(label, found.start(1))
        start, column = found.start(2), found.start(3)
        if word is None:
            if rest.strip():
                at = column + len(rest) - len(rest.lstrip())
                raise TextFault("RG0113", f"unexpected `{rest.strip()[:20]}`", at, at + len(rest.strip()))
        elif (form := self.forms.get(word)) is not None:
            if self.layout.in_data:
                raise TextFault("RG0114", f"the instruction `{word}` stands in .data", start, start + len(word))
            self.instructions.encode(form, WrittenInstruction(word, start, rest, column))
        elif word in self.directives:
            w = self.symbols.format
            self.directives[word](rest, column)
            if self.symbols.format is not w:
                self.known_lines.clear()
                self.instructions.forget()
        elif word in self.subroutines:
            if self.layout.in_data:
                raise TextFault("RG0114", f"`{word}` stands in .data", start, start + len(word))
            self.subroutines[word](rest, column)
        else:
            raise self._unknown(word, rest, start)

    def _unknown(self, word: str, rest: str, start: int) -> TextFault:
        """The fault of a word that is neither an instruction nor a directive."""
        end = start + len(word)
        if word.startswith("."):
            return TextFault("RG0109", f"unknown directive `{word}`", start, end, nearest(word, self.directives, 0.7))
        if rest.lstrip().startswith(":"):
            return TextFault("RG0113", "a second label on the line", start, end, "give it a line of its own")
        names = [*self.forms, *self.subroutines, *self.directives]
        hint = (nearest(word.lower(), names) if word.lower() != word else None) or nearest(word, names)
        updates = [name for name in self.forms if name.startswith(word + ".")]
        if updates:
            hint = f"write the update too: {', '.join(f'`{u}`' for u in updates)}"
        hint = FOREIGN.get(word.lower(), hint)
        return TextFault("RG0101", f"unknown instruction `{word}`", start, end, hint)


_ELSEWHERE = {
    "beq bne blt bge bltu bgeu": "write `goto.{0} ra, rb, target`, and `from.{0} ra, rb, label` at the target: its condition tells where control came from",
    "beqz bnez jz jnz je jne": "write `goto.eq ra, rb, target` or `goto.ne`, and `from.eq` or `from.ne` at the target",
    "j jmp b jal ba": "write `goto target`, and `from label` at the target; `call name` runs a subroutine",
    "addi inc dec subi": "write `add rd, 5` or `sub rd, 5`",
    "li mv move lui": "write `add rd, 5` or `add rd, ra`: it copies into a register that is zero",
    "lw lb lh load ldr": "write `ld.add rd, [ra + 5]`, or `exch rd, [ra + 5]` to exchange the words",
    "sw sb sh store str": "write `st.add [ra + 5], rb`, or `exch rb, [ra + 5]` to exchange the words",
    "halt hlt exit end": "write `finish`",
    "ret rts jr": "a subroutine begins and ends with `swapbr rd`, which goes back to its call",
    "sll srl sra lsl lsr asr": "write `shl.add`, `shr.add` or `sar.add rd, ra, rb`; `rol rd, ra` turns the bits of rd itself around",
    "clr clear": "write `erase rd`, which loses the word; or take back what made it",
}  # fmt: skip
#: instructions of other machines → how to write them here
FOREIGN = {name: hint.format(name[1:]) for names, hint in _ELSEWHERE.items() for name in names.split()}


def assemble(
    text: str,
    *,
    name: str = "<text>",
    path: Path | None = None,
    include: Iterable[Path] = (),
    table: Table = TABLE,
    format: Format | str = Q32_32,
    check: bool = True,
) -> Program:
    """The program that the text denotes, verified unless `check` is off. Inverse: `disassemble`.

    `.include` reads files below the folder of `path` and the folders in `include`, and nothing without a path.
    Warns with PrecisionWarning of a literal that loses more than half of its bits. Raises AssemblyError or VerificationError with
    every fault found.
    """
    roots = tuple(p.resolve() for p in ([] if path is None else [path.parent]) + list(include))
    parser = Parser(table, format_of(format), roots)
    parser.read(name, text, None if path is None else path.resolve())
    program = parser.program()
    for d in parser.sources.warnings:
        assert d.span is not None
        warning = PrecisionWarning(f"{d.message}. {d.hint}")
        warning.span = d.span
        warnings.warn_explicit(warning, PrecisionWarning, d.span.file, d.span.line)
    if check:
        verify(program)
    return program


def assemble_file(path: str | os.PathLike[str], **options: object) -> Program:
    """`assemble` for a file.

    Raises AssemblyError RG0118 for a file that is not text, InputError RG0514 for a file that is too large, OSError for an unreadable one.
    """
    with open(path, "rb", buffering=0) as file:
        data = read_stream(file, os.fspath(path), MAX_BYTES)
    return assemble(decode_text(data, os.fspath(path)), name=os.fspath(path), path=Path(path), **options)  # type: ignore[arg-type]


# -----------------------------------------------------------------------------
# Program -> assembly text that assembles to the same program.

_DATA_PER_LINE = 8
_ACCESSES_PER_LINE = 16


def disassemble(
    program: Program, *, addresses: bool = False, comment: Callable[[int], str | None] | None = None
) -> str:
    """The program as text; labels keep their names, others are made up. Inverse: `assemble`.

    With `addresses`, each instruction carries its address and encoding in a comment; `comment(address)` gives another.
    Raises ImageError RG0306 for a word that is no instruction.
    """
    names = _code_names(program)
    out = [f".format {program.format.width}, {program.format.frac}"]
    if program.memory > len(program.data):
        out.append(f".memory {program.memory}")
    if program.data or program.data_labels:
        out += [".data", *_data_lines(program), ".text"]
    by_address: dict[int, list[str]] = {}
    for name, pc in names.items():
        by_address.setdefault(pc, []).append(name)
    first = {pc: found[0] for pc, found in by_address.items()}
    quoted: dict[int, list[str]] = {}
    for name, pc in program.labels.items():
        if name and name not in names and 0 <= pc <= len(program.code):
            quoted.setdefault(pc, []).append(f".label {_quoted(name)}")
    for pc, i in enumerate(program.instructions):
        out += [f"{name}:" for name in by_address.get(pc, ())] + quoted.get(pc, [])
        text = write(i, lambda distance, pc=pc: first.get(pc + distance, f".{distance:+d}"))  # type: ignore[misc]
        notes = [f"{pc}: {program.code[pc]:016x}"] if addresses else []
        said = comment(pc) if comment is not None else None
        if said:
            notes.append(printable(said))
        out.append(f"    {text:<40} ; {'  '.join(notes)}" if notes else f"    {text}")
    end = len(program.code)
    out += [f"{name}:" for name in by_address.get(end, ())] + quoted.get(end, [])
    if program.hints.pairs:
        out += _hint_lines(program.hints)
    return "\n".join(out) + "\n"


def _hint_lines(hints: Hints) -> Iterator[str]:
    """The hints, by addresses: pairs, then the accesses of one region after those of another."""
    for pair in hints.pairs:
        yield f"    .pair {', '.join(map(str, pair))}"
    for region, run in groupby(hints.accesses, lambda access: access[1:]):
        places = [access[0] for access in run]
        for k in range(0, len(places), _ACCESSES_PER_LINE):
            yield f"    .access {', '.join(map(str, (*region, *places[k : k + _ACCESSES_PER_LINE])))}"


def _is_label(name: str) -> bool:
    """Whether the assembler reads the name as that of a label."""
    return is_name(name) and name not in REGISTERS


def _quoted(name: str) -> str:
    """A name as a string of the assembler."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in escaped) + '"'


def _code_names(program: Program) -> dict[str, int]:
    """Labels by name: the program's own where they can be written, and one for every other target."""
    size = len(program.code)
    taken = set(program.data_labels)
    names = {
        name: pc for name, pc in program.labels.items() if _is_label(name) and 0 <= pc <= size and name not in taken
    }
    labelled = set(names.values())
    targets = {
        pc + i.opcode.distance(i.imm) for pc, i in enumerate(program.instructions) if "target" in i.opcode.operands
    }
    number = 0
    for pc in sorted(t for t in targets - labelled if 0 <= t < size):
        while f"L{number}" in names or f"L{number}" in taken:
            number += 1
        names[f"L{number}"] = pc
        number += 1
    return names


def _data_lines(program: Program) -> list[str]:
    """The data section: labels, words, and runs of zeros in one line; then the labels of words that have no value yet."""
    out: list[str] = []
    at: dict[int, list[str]] = {}
    apart: list[str] = []
    for name, address in program.data_labels.items():
        if _is_label(name) and 0 <= address <= len(program.data):
            at.setdefault(address, []).append(name)
        elif name:
            apart.append(f".label {name if _is_label(name) else _quoted(name)}, {address}")
    stops = sorted({0, len(program.data), *at})
    for begin, end in zip(stops, [*stops[1:], len(program.data)], strict=True):
        out += [f"{name}:" for name in at.get(begin, ())]
        block = program.data[begin:end]
        i = 0
        while i < len(block):
            zeros = i
            while zeros < len(block) and block[zeros] == 0:
                zeros += 1
            if zeros - i > _DATA_PER_LINE:
                out.append(f"    .zero {zeros - i}")
                i = zeros
                continue
            out.append("    .word " + ", ".join(str(x) for x in block[i : i + _DATA_PER_LINE]))
            i += _DATA_PER_LINE
    return out + apart
