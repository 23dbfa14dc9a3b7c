"""Layout: the code and data of a program as they grow, and the second pass, which fills in addresses.

During the first pass, labels further down have no address yet. The pass leaves a fixup for each constant and target without a
value, and `program` resolves the fixups once all labels have their addresses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from retrograd.assembler.constants import REAL
from retrograd.assembler.lexer import TextFault
from retrograd.assembler.sources import Position, Sources
from retrograd.assembler.symbols import REGISTERS, SymbolTable
from retrograd.isa.diagnostics import AssemblyError, nearest
from retrograd.isa.encoding import CODE_SHIFT, FIELD_SHIFT
from retrograd.isa.entries import Opcode
from retrograd.isa.program import MAX_DATA, ArrayLayout, Program, SourceMap, VariableLocation
from retrograd.isa.table import Table

_IN_A_REGISTER = "compute with registers in instructions: a constant is known when the program is assembled"


class Fixup(NamedTuple):
    """A constant, or the target of a branch, whose value the first pass did not know."""

    #: of the instruction in the code, or of the word in the data
    address: int
    text: str
    column: int
    position: Position
    #: the branch whose target it is
    branch: Opcode | None = None


class Subroutine(NamedTuple):
    """A `proc` whose `endproc` has not come yet."""

    name: str
    position: Position


class Layout:
    """Code with a position for each instruction, data, and fixups of both."""

    def __init__(self, sources: Sources, symbols: SymbolTable, table: Table) -> None:
        self.sources = sources
        self.symbols = symbols
        self.table = table
        self.code: list[int] = []
        self.spans: list[Position] = []
        self.data: list[int] = []
        #: words of memory that the program needs at least
        self.memory = 0
        #: the section that is being read is .data
        self.in_data = False
        self.subroutine: Subroutine | None = None
        self._code_fixups: list[Fixup] = []
        self._data_fixups: list[Fixup] = []
        #: addresses of the words of data that are written as fixed-point numbers
        self._reals: set[int] = set()

    def emit(self, word: int, position: Position, fixup: Fixup | None = None) -> None:
        """Append an encoded instruction, to which the second pass adds a fixup."""
        self.code.append(word)
        self.spans.append(position)
        if fixup is not None:
            self._code_fixups.append(fixup)

    def emit_named(self, name: str, *, fixup: Fixup | None = None, **fields: int) -> None:
        """Append an instruction that the line that is being read stands for."""
        word = self.table[name].code << CODE_SHIFT
        for field, value in fields.items():
            word |= (value & 0xFFFFFFFF) if field == "imm" else value << FIELD_SHIFT[field]
        line = self.sources.file.lines[self.sources.line - 1]
        self.emit(word, self.sources.position(len(line) - len(line.lstrip()), len(line.rstrip())), fixup)

    def later(self, text: str, column: int, branch: Opcode | None = None) -> Fixup:
        """The fixup of the next instruction: a constant, or the label that is the target of a `branch`."""
        return Fixup(len(self.code), text, column, self.sources.position(column, column + len(text)), branch)

    def store_constants(self, texts: Iterable[str], at: int) -> None:
        """Append a word of data for each constant expression, those with unknown names left to the second pass."""
        for text in texts:
            value = self.symbols.value_if_known(text, at)
            if value is None:
                position = self.sources.position(at, at + len(text))
                self._data_fixups.append(Fixup(len(self.data), text, at, position))
            if "q" in text and REAL.search(text):
                self._reals.add(len(self.data))
            self.store([self.symbols.as_word(value or 0, at, len(text))])
            at += len(text) + 1

    def store(self, words: Iterable[int]) -> None:
        """Append words of data. Raises AssemblyError RG0116."""
        self.data.extend(words)
        if len(self.data) > MAX_DATA:
            raise self.sources.stop("RG0116", f"more than {MAX_DATA} words of data")

    def define_label(self, name: str, at: int) -> None:
        """Give a name to the next instruction, or to the next word of data."""
        self.symbols.claim(name, at)
        if self.in_data:
            self.symbols.data_labels[name] = len(self.data)
        else:
            self.symbols.labels[name] = len(self.code)

    # ------------------------------------------------------------ second pass

    def program(self) -> Program:
        """The program, its fixups resolved. Raises AssemblyError with the faults of both passes."""
        symbols, sources = self.symbols, self.sources
        if self.subroutine is not None:
            name, position = self.subroutine
            sources.report(position, TextFault("RG0115", f"the procedure `{name}` has no `endproc`", 0, 0), None)
            symbols.labels[f"{name}.bottom"] = len(self.code)
        for fixup in self._code_fixups:
            self._resolve(fixup, self.code)
        for fixup in self._data_fixups:
            self._resolve(fixup, self.data)
        if sources.errors:
            raise AssemblyError(*sources.errors)
        source = SourceMap(tuple(f.name for f in sources.files), self.spans, tuple(f.lines for f in sources.files))
        names = {name: number for name, number in symbols.registers.items() if name not in REGISTERS}
        labels = symbols.labels, symbols.data_labels
        return Program(
            self.code, self.data, self.memory, symbols.format, *labels, source, self.table, names, self._fixed_data()
        )

    def _fixed_data(self) -> list[VariableLocation]:
        """The data labels of fixed-point numbers: some of their words are written as such, and the others are zero."""
        starts = sorted((address, name) for name, address in self.symbols.data_labels.items())
        ends = [*(address for address, _ in starts[1:]), len(self.data)]
        out = []
        for (address, name), end in zip(starts, ends, strict=False):
            words = range(address, min(end, len(self.data)))
            if any(n in self._reals for n in words) and all(n in self._reals or not self.data[n] for n in words):
                shape = (len(words),) if len(words) > 1 else ()
                layout = ArrayLayout(name, "fixed", 0, shape, (1,) * len(shape))
                out.append(VariableLocation(name, "fixed", 0, len(self.code), address, True, layout))
        return out

    def _resolve(self, fixup: Fixup, words: list[int]) -> None:
        """Put the value of a fixup into its word, or report the fault."""
        symbols, text, at, length = self.symbols, fixup.text, fixup.column, len(fixup.text)
        self.sources.file, self.sources.line = self.sources.files[fixup.position[0]], fixup.position[1]
        try:
            if words is self.data:
                words[fixup.address] = symbols.as_word(symbols.value(text, at), at, length)
            elif fixup.branch is not None:
                distance = symbols.label(text, at) - fixup.address
                words[fixup.address] |= symbols.as_offset(fixup.branch, distance, at, length) & 0xFFFFFFFF
            else:
                words[fixup.address] |= symbols.as_immediate(symbols.value(text, at), at, length) & 0xFFFFFFFF
        except TextFault as e:
            hint = e.hint
            if e.name is not None and e.name in symbols.registers:
                e = TextFault(e.code, f"`{e.name}` is a register, and no part of a constant", e.start, e.end)
                hint = _IN_A_REGISTER
            elif e.name is not None:
                hint = nearest(e.name, symbols.names())
            self.sources.report(fixup.position, e, hint)
