"""Assembly text -> Program, in two passes.

The first pass reads lines, encodes what it can and notes what it cannot; the second fills in addresses.
Every error of a text is reported in one go.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from retrograd.assembler.constants import BadConstant, escape, evaluate
from retrograd.assembler.sources import MAX_BYTES, MAX_DEPTH, MAX_FILES, decode_text, read_include
from retrograd.assembler.verify import verify
from retrograd.isa.diagnostics import AssemblyError, Diagnostic, Span, nearest
from retrograd.isa.encoding import (
    CODE_SHIFT,
    IMMEDIATE_MAX,
    IMMEDIATE_MIN,
    RA_SHIFT,
    RB_SHIFT,
    RD_SHIFT,
)
from retrograd.isa.entries import Opcode
from retrograd.isa.files import read_stream
from retrograd.isa.program import MAX_CODE, MAX_DATA, Program, SourceMap
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Q32_32, WIDTHS, Format, format_of

MAX_ERRORS = 50

_NAME = re.compile(r"[A-Za-z_][\w.]*")
_LINE = re.compile(r"\s*(?:([A-Za-z_][\w.]*)\s*:)?\s*([A-Za-z_.][\w.]*)?(.*)", re.DOTALL)
#: a line whose operands are all names: by far the commonest, read in one match where they are registers
_REGISTERS_ONLY = re.compile(r"\s*([a-z][\w.]*)\s+(\w+)(?:\s*,\s*(\w+)(?:\s*,\s*(\w+))?)?[ \t]*(?:;|$)")
_MEMORY = re.compile(r"\[\s*([A-Za-z_][\w.]*)\s*")
_DISTANCE = re.compile(r"\.([+-]\d{1,10})$")
_OPERAND = re.compile(r"((?:'(?:\\.|[^\\])'|[^,])*),")
_LABEL = re.compile(r'\s*("(?:\\.|[^"\\])*"|[A-Za-z_][\w.]*)\s*(?:,(.*))?', re.DOTALL)
_STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
_IN_A_REGISTER = "compute with registers in instructions: a constant is known when the program is assembled"
_REGISTERS = {f"r{i}": i for i in range(256)}
_FIELD_SHIFT = {"rd": RD_SHIFT, "ra": RA_SHIFT, "rb": RB_SHIFT}

#: conditions that are others with the operands exchanged
_MIRRORED = {"gt": "lt", "le": "ge", "gtu": "ltu", "leu": "geu"}


#: what is no instruction but stands for some: name -> (syntax, meaning)
SUGAR = {
    "push": ("push REGISTER, STACK", "exch REGISTER, [STACK] and add STACK, 1: onto a stack whose next word is zero"),
    "pop": ("pop REGISTER, STACK", "sub STACK, 1 and exch REGISTER, [STACK]: the inverse of push"),
    "proc": (
        "proc NAME, LINK [, STACK]",
        "the head of a subroutine: from NAME.bottom, (pop LINK), swapbr LINK, neg LINK, (push LINK)",
    ),
    "endproc": ("endproc", "the foot of a subroutine: goto NAME.top"),
}


def sugar_page(name: str) -> str | None:
    """What a name stands for that the assembler takes and the machine does not have, or None."""
    if name in SUGAR:
        syntax, meaning = SUGAR[name]
        return f"{name}  (assembler)\n\n  {syntax}\n    {meaning}"
    way, _, condition = name.partition(".")
    if way in ("goto", "from") and condition in _MIRRORED:
        other = f"{way}.{_MIRRORED[condition]}"
        return f"{name}  (assembler)\n\n  {name} ra, rb, target\n    {other} rb, ra, target"
    return None


class _Form(NamedTuple):
    """What the assembler needs of an opcode, at hand."""

    opcode: Opcode
    bits: int
    operands: tuple[str, ...]
    #: the form that takes a constant as its last operand
    constant: _Form | None
    #: exchange the two registers
    mirrored: bool
    distinct: tuple[tuple[int, int], ...]
    #: where its registers go, if it has no other operand
    shifts: tuple[int, ...]


class _Fixup(NamedTuple):
    """A constant or a target whose value the first pass did not know."""

    address: int
    kind: str
    text: str
    column: int
    opcode: Opcode | None


@dataclass
class _File:
    """A source being read."""

    index: int
    name: str
    folder: Path | None
    lines: list[str]


class _Wrong(Exception):
    """A fault in the current line: code, message, columns from 0."""

    def __init__(self, code: str, message: str, start: int, end: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.start, self.end, self.hint = code, message, start, end, hint


def _forms(table: Table) -> dict[str, _Form]:
    def form(o: Opcode, mirrored: bool = False) -> _Form:
        constant = table.immediate_form(o)
        shifts = tuple(_FIELD_SHIFT[kind] for kind in o.operands if kind in _FIELD_SHIFT)
        if len(shifts) < len(o.operands) or mirrored:
            shifts = ()
        pairs = tuple((_FIELD_SHIFT[x], _FIELD_SHIFT[y]) for x, y in o.distinct)
        code = o.code << CODE_SHIFT
        return _Form(o, code, o.operands, None if constant is None else form(constant), mirrored, pairs, shifts)

    out = {o.name: form(o) for o in table}
    out |= {name: form(o) for name, o in table.shorthands.items()}
    for name, base in _MIRRORED.items():
        for way in ("goto", "from"):
            out[f"{way}.{name}"] = form(table[f"{way}.{base}"], mirrored=True)
    return out


_FORMS: dict[int, tuple[Table, dict[str, _Form]]] = {}


def _forms_of(table: Table) -> dict[str, _Form]:
    known = _FORMS.get(id(table))
    if known is None:
        known = _FORMS[id(table)] = (table, _forms(table))
    return known[1]


class _Assembler:
    def __init__(self, table: Table, w: Format, roots: tuple[Path, ...]) -> None:
        self.table = table
        self.forms = _forms_of(table)
        self.format = w
        self.format_fixed = False
        self.roots = roots
        self.files: list[_File] = []
        self.open: list[Path] = []
        self.code: list[int] = []
        self.spans: list[tuple[int, int, int, int]] = []
        self.data: list[int] = []
        self.data_fixups: list[tuple[int, str, int, tuple[int, int, int, int]]] = []
        self.fixups: list[_Fixup] = []
        self.labels: dict[str, int] = {}
        self.data_labels: dict[str, int] = {}
        self.constants: dict[str, int] = {}
        self.registers = dict(_REGISTERS)
        self.defined_at: dict[str, tuple[int, int]] = {}
        self.memory = 0
        self.in_data = False
        self.procedure: tuple[str, int, int | None, tuple[int, int, int, int]] | None = None
        self.errors: list[Diagnostic] = []
        #: line text -> (word, column, end): lines that encode alike wherever they stand
        self.known_lines: dict[str, tuple[int, int, int]] = {}
        self.file: _File
        self.line_number = 0
        self.directives: dict[str, Callable[[str, int], None]] = {
            ".equ": self._equ,
            ".reg": self._reg,
            ".format": self._format,
            ".memory": self._memory,
            ".data": partial(self._section, True),
            ".text": partial(self._section, False),
            ".word": self._word,
            ".zero": self._zero,
            ".ascii": self._ascii,
            ".include": self._include,
            ".label": self._label,
        }
        self.sugar: dict[str, Callable[[str, int], None]] = {
            "proc": self._proc,
            "endproc": self._endproc,
            "push": partial(self._stack, True),
            "pop": partial(self._stack, False),
        }

    # ------------------------------------------------------------ errors

    def _report(self, code: str, message: str, span: Span, line: str | None, hint: str | None = None) -> None:
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(Diagnostic(code, message, span, hint, line))
            if len(self.errors) == MAX_ERRORS:
                raise AssemblyError(*self.errors)

    def _report_at(self, where: tuple[int, int, int, int], code: str, message: str, hint: str | None = None) -> None:
        index, line, column, end = where
        file = self.files[index]
        text = file.lines[line - 1]
        # Operands come with the blanks around them; the caret does not.
        while column < end - 1 and text[column - 1 : column].isspace():
            column += 1
        while end - 1 > column and text[end - 2 : end - 1].isspace():
            end -= 1
        self._report(code, message, Span(file.name, line, column, end), file.lines[line - 1], hint)

    # ------------------------------------------------------------ first pass

    def read(self, name: str, text: str, path: Path | None) -> None:
        """Read one source, and those that it includes."""
        if len(self.files) >= MAX_FILES:
            raise AssemblyError(*self.errors, Diagnostic("RG0116", f"more than {MAX_FILES} files"))
        file = _File(len(self.files), name, path.parent if path else None, text.split("\n"))
        self.files.append(file)
        outer = getattr(self, "file", None), self.line_number
        self.file = file
        known, code, spans, index = self.known_lines, self.code, self.spans, file.index
        for number, line in enumerate(file.lines, 1):
            hit = known.get(line)
            if hit is not None and not self.in_data:
                word, column, end = hit
                code.append(word)
                spans.append((index, number, column, end))
                continue
            if not self.in_data and self._registers_only(line, number):
                continue
            self.line_number = number
            try:
                self._line(line)
            except _Wrong as e:
                self._report_at((file.index, number, e.start + 1, e.end + 1), e.code, e.message, e.hint)
            except BadConstant as e:
                hint = (
                    (nearest(e.name, self._symbols()) or "define it above: its value is needed here")
                    if e.name
                    else None
                )
                self._report_at((file.index, number, e.start + 1, e.end + 1), e.code, e.message, hint)
            if len(code) > MAX_CODE:
                raise AssemblyError(
                    *self.errors, Diagnostic("RG0116", f"more than {MAX_CODE} instructions", Span(name, number))
                )
        if outer[0] is not None:
            self.file, self.line_number = outer[0], outer[1]

    def _registers_only(self, line: str, number: int) -> bool:
        """Encode a line of an instruction on registers; False for any other, and for any fault."""
        found = _REGISTERS_ONLY.match(line)
        if found is None:
            return False
        form = self.forms.get(found[1])
        count = found.lastindex
        if form is None or count is None or len(form.shifts) != count - 1:
            return False
        word = form.bits
        registers = self.registers
        for group, shift in enumerate(form.shifts, 2):
            register = registers.get(found[group])
            if register is None:
                return False
            word |= register << shift
        for x, y in form.distinct:
            if (word >> x ^ word >> y) & 255 == 0:
                return False
        column, end = found.start(1) + 1, found.end(count) + 1
        self.known_lines[line] = (word, column, end)
        self.code.append(word)
        self.spans.append((self.file.index, number, column, end))
        return True

    def _line(self, line: str) -> None:
        text = line
        if ";" in text:
            text = _without_comment(text)
        found = _LINE.match(text)
        if found is None:
            raise _Wrong("RG0113", "this line cannot be read", 0, len(line))
        label, word, rest = found.groups()
        if label is not None:
            self._define_label(label, found.start(1))
        if word is None:
            if rest.strip():
                at = found.start(3) + len(rest) - len(rest.lstrip())
                raise _Wrong("RG0113", f"unexpected `{rest.strip()[:20]}`", at, at + len(rest.strip()))
            return
        start, column = found.start(2), found.start(3)
        form = self.forms.get(word)
        if form is not None:
            if self.in_data:
                raise _Wrong("RG0114", f"the instruction `{word}` stands in .data", start, start + len(word))
            self._instruction(line, form, word, start, rest, column, label is None)
        elif word in self.directives:
            self.known_lines.clear()
            self.directives[word](rest, column)
        elif word in self.sugar:
            if self.in_data:
                raise _Wrong("RG0114", f"`{word}` stands in .data", start, start + len(word))
            self.sugar[word](rest, column)
        elif word.startswith("."):
            raise _Wrong(
                "RG0109", f"unknown directive `{word}`", start, start + len(word), nearest(word, self.directives, 0.7)
            )
        else:
            if rest.lstrip().startswith(":"):
                raise _Wrong(
                    "RG0113", "a second label on the line", start, start + len(word), "give it a line of its own"
                )
            hint = nearest(word, [*self.forms, *self.sugar, *self.directives])
            if word.lower() != word:
                hint = nearest(word.lower(), [*self.forms, *self.sugar, *self.directives]) or hint
            if any(name.startswith(word + ".") for name in self.forms):
                updates = [name for name in self.forms if name.startswith(word + ".")]
                hint = f"write the update too: {', '.join(f'`{u}`' for u in updates)}"
            raise _Wrong("RG0101", f"unknown instruction `{word}`", start, start + len(word), hint)

    def _instruction(self, line: str, form: _Form, name: str, start: int, rest: str, column: int, alone: bool) -> None:
        parts = _split_operands(rest) if rest and not rest.isspace() else []
        operands = form.operands
        if len(parts) != len(operands):
            syntax = f"`{name} {', '.join(operands)}`".replace(" `", "`")
            message = f"`{name}` takes {len(operands)} operand{'s' * (len(operands) != 1)}, not {len(parts)}"
            raise _Wrong("RG0102", message, start, start + len(name), f"syntax: {syntax}")
        registers = self.registers
        if form.constant is not None and parts[-1].strip() not in registers:
            last = parts[-1].strip()
            if not last.startswith("[") and not _looks_like_register(last):
                if form.constant.opcode.entry.name == "imm":
                    self._wide_update(form, parts, start, column, len(line))
                    return
                form = form.constant
                operands = form.operands
        word = form.bits
        fixup: _Fixup | None = None
        at = column
        for kind, part in zip(operands, parts, strict=True):
            if kind in _FIELD_SHIFT:
                number = registers.get(part) if part in registers else registers.get(part.strip())
                if number is None:
                    raise self._no_register(part, at)
                word |= number << _FIELD_SHIFT[kind]
            else:
                word, fixup = self._constant_operand(form.opcode, kind, part, at, word)
            at += len(part) + 1
        if form.mirrored:
            ra, rb = word >> RA_SHIFT & 255, word >> RB_SHIFT & 255
            word ^= (ra ^ rb) << RA_SHIFT | (ra ^ rb) << RB_SHIFT
        for x, y in form.distinct:
            if (word >> x ^ word >> y) & 255 == 0:
                raise self._aliased(name, word >> x & 255, parts, column)
        end = column + len(rest.rstrip()) + 1
        if fixup is not None:
            self.fixups.append(fixup)
        elif alone:
            self.known_lines[line] = (word, start + 1, end)
        self.code.append(word)
        self.spans.append((self.file.index, self.line_number, start + 1, end))

    def _aliased(self, name: str, register: int, parts: list[str], column: int) -> _Wrong:
        """The fault of naming twice what is written once, at the second of the two."""
        at, seen = column, False
        for part in parts:
            found = _NAME.search(part)
            if found is not None and self.registers.get(found[0]) == register:
                if seen:
                    message = f"`{name}` writes r{register} and also names it a second time"
                    return _Wrong("RG0108", message, at + found.start(), at + found.end())
                seen = True
            at += len(part) + 1
        return _Wrong("RG0108", f"`{name}` names r{register} twice", column, at)

    def _no_register(self, part: str, at: int) -> _Wrong:
        text = part.strip()
        begin = at + len(part) - len(part.lstrip())
        end = begin + max(len(text), 1)
        if not text:
            return _Wrong("RG0103", "a register is missing here", begin, end)
        hint = nearest(text, [n for n in self.registers if n not in _REGISTERS])
        if text.startswith("["):
            hint = "use ld, st or exch for memory"
        elif hint is None and not _looks_like_register(text) and self._is_constant(text):
            hint = f"put the constant into a register that is zero first: `add r9, {text}`"
        return _Wrong("RG0103", f"`{text}` is not a register", begin, end, hint)

    def _constant_operand(self, opcode: Opcode, kind: str, part: str, at: int, word: int) -> tuple[int, _Fixup | None]:
        """The word with a memory operand, constant or target filled in, or a note to do so later."""
        text = part.strip()
        begin = at + len(part) - len(part.lstrip())
        if kind == "[ra+imm]":
            found = _MEMORY.match(text)
            number = self.registers.get(found[1]) if found and text.endswith("]") else None
            inside = text[found.end() : -1] if found else ""
            if number is None or (inside and inside[0] not in "+-"):
                message = f"`{text[:40]}` is not a memory operand" if text else "a memory operand is missing here"
                raise _Wrong("RG0103", message, begin, begin + max(len(text), 1), "write [ra], [ra + 4] or [ra - name]")
            word |= number << RA_SHIFT
            # The sign belongs to the expression: [r1 - 5 + 1] is four words below r1.
            return (
                self._immediate(opcode, inside, begin + len(text) - 1 - len(inside), word) if inside else (word, None)
            )
        if kind == "target":
            distance = _DISTANCE.match(text)
            if distance is not None:
                offset = self._fits_jump(opcode, int(distance.group(1)), begin, len(text))
                return word | offset & 0xFFFFFFFF, None
            if _NAME.fullmatch(text) is None:
                message = f"`{text}` is not a label" if text else "a label is missing here"
                hint = "name the label of the other end, or its distance in instructions, such as .+5"
                raise _Wrong("RG0103", message, begin, begin + max(len(text), 1), hint)
            return word, _Fixup(len(self.code), "target", text, begin, opcode)
        return self._immediate(opcode, part, at, word)

    def _immediate(self, opcode: Opcode, text: str, at: int, word: int) -> tuple[int, _Fixup | None]:
        value = self._try(text, at)
        if value is None:
            return word, _Fixup(len(self.code), "imm", text, at, opcode)
        return word | self._fits_immediate(value, at, len(text)) & 0xFFFFFFFF, None

    def _try(self, text: str, at: int) -> int | None:
        """The value of a constant expression, None where it names what is not defined yet."""
        plain = text.strip()
        if plain.isdecimal() and plain.isascii() and len(plain) < 19:
            return int(plain)
        try:
            return evaluate(text, self.format, self._lookup)
        except BadConstant as e:
            if e.code == "RG0106":
                return None
            raise _moved(e, at) from None

    def _is_constant(self, text: str) -> bool:
        try:
            return self._try(text, 0) is not None
        except BadConstant:
            return False

    def _lookup(self, name: str) -> int | None:
        for space in (self.constants, self.data_labels, self.labels):
            if name in space:
                return space[name]
        return None

    def _fits_immediate(self, value: int, at: int, length: int) -> int:
        """The constant as the 32-bit field holds it: what fits the word, or 32 bits if the word is wider."""
        width = min(32, self.format.width)
        high = 1 << (width - 1) if self.format.width > 32 else 1 << width
        if not -(1 << (width - 1)) <= value < high:
            hint = None
            if self.format.width > 32:
                hint = "`add`, `sub` and `xor` take any word; others need it in a register"
            raise _Wrong("RG0105", f"{value} does not fit in {width} bits", at, at + length, hint)
        return ((value & (1 << width) - 1) ^ (1 << width - 1)) - (1 << width - 1)

    def _fits_jump(self, opcode: Opcode, distance: int, at: int, length: int) -> int:
        """The constant of a branch: BR must hold it, and its negative, which is the way back."""
        limit = min(self.format.sign, 1 << 31)
        if not -limit < distance < limit:
            message = f"a jump of {distance} instructions does not fit BR: {min(self.format.width, 32)} bits, both ways"
            raise _Wrong("RG0105", message, at, at + length)
        return opcode.distance(distance)

    def _wide_update(self, form: _Form, parts: list[str], start: int, column: int, length: int) -> None:
        """`add rd, constant`: one instruction where 32 bits hold it, else two for the two halves."""
        part, text = parts[0], parts[1]
        number = self.registers.get(part.strip())
        if number is None:
            raise self._no_register(part, column)
        at = column + len(part) + 1
        value = self._try(text, at)
        end = at + len(text.rstrip()) + 1
        span = (self.file.index, self.line_number, start + 1, end)
        update = str(form.opcode.update)
        low_form = self.table[f"imm.{update}"]
        base = low_form.code << CODE_SHIFT | number << RD_SHIFT
        if value is None:
            self.fixups.append(_Fixup(len(self.code), "imm", text, at, low_form))
            self.code.append(base)
            self.spans.append(span)
            return
        w = self.format
        if not -w.sign <= value <= w.mask:
            raise _Wrong("RG0105", f"{value} does not fit in {w.width} bits", at, at + len(text))
        value = w.signed(value)
        if w.width <= 32 or IMMEDIATE_MIN <= value <= IMMEDIATE_MAX:
            self.code.append(base | value & 0xFFFFFFFF)
            self.spans.append(span)
            return
        low = ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
        # What the low half's sign extension did above bit 31 is made good in the high half.
        high = (value ^ low if update == "xor" else value - low) >> 32 & 0xFFFFFFFF
        if low:
            self.code.append(base | low & 0xFFFFFFFF)
            self.spans.append(span)
        self.code.append(self.table[f"immhi.{update}"].code << CODE_SHIFT | number << RD_SHIFT | high)
        self.spans.append(span)

    # ------------------------------------------------------------ symbols

    def _symbols(self) -> list[str]:
        return [*self.labels, *self.data_labels, *self.constants]

    def _claim(self, name: str, at: int, length: int | None = None) -> None:
        """Reserve a name, which must be new; it is told of at a column, under so many signs of the line."""
        where = self.file.index, self.line_number
        end = at + (len(name) if length is None else length)
        if name in _REGISTERS:
            raise _Wrong("RG0107", f"`{name}` is a register", at, end, "choose a name that is no register")
        if name in self.defined_at:
            index, line = self.defined_at[name]
            message = f"`{name}` is already defined at {self.files[index].name}:{line}"
            raise _Wrong("RG0107", message, at, end)
        self.defined_at[name] = where

    def _define_label(self, name: str, at: int) -> None:
        self._claim(name, at)
        if self.in_data:
            self.data_labels[name] = len(self.data)
        else:
            self.labels[name] = len(self.code)

    # ------------------------------------------------------------ directives

    def _arguments(self, rest: str, column: int, count: int, syntax: str) -> list[tuple[str, int]]:
        parts = _split_operands(rest) if rest.strip() else []
        if len(parts) != count:
            end = column + max(len(rest.rstrip()), 1)
            raise _Wrong("RG0102", f"expected `{syntax}`", column, end, f"write `{syntax}`")
        out, at = [], column
        for part in parts:
            out.append((part.strip(), at + len(part) - len(part.lstrip())))
            at += len(part) + 1
        return out

    def _name(self, text: str, at: int) -> str:
        if _NAME.fullmatch(text) is None:
            raise _Wrong("RG0113", f"`{text}` is not a name", at, at + max(len(text), 1))
        return text

    def _value(self, text: str, at: int) -> int:
        try:
            return evaluate(text, self.format, self._lookup)
        except BadConstant as e:
            raise _moved(e, at) from None

    def _equ(self, rest: str, column: int) -> None:
        (name, at), (text, where) = self._arguments(rest, column, 2, ".equ NAME, CONSTANT")
        self.format_fixed = True
        value = self._value(text, where)
        self._claim(self._name(name, at), at)
        self.constants[name] = value

    def _reg(self, rest: str, column: int) -> None:
        (name, at), (register, where) = self._arguments(rest, column, 2, ".reg NAME, REGISTER")
        number = self.registers.get(register)
        if number is None:
            raise self._no_register(register, where)
        self._claim(self._name(name, at), at)
        self.registers[name] = number

    def _format(self, rest: str, column: int) -> None:
        (width, at), (frac, where) = self._arguments(rest, column, 2, ".format WIDTH, FRAC")
        if self.format_fixed or self.code or self.data:
            raise _Wrong(
                "RG0117", "the format is set too late", at, where + len(frac), "put it first in the program, once"
            )
        bits, fraction = self._value(width, at), self._value(frac, where)
        if bits not in WIDTHS or not 0 <= fraction < bits:
            raise _Wrong("RG0117", f"no format has {bits} bits, {fraction} of them fraction", at, where + len(frac))
        self.format = Format(bits, fraction)
        self.format_fixed = True

    def _label(self, rest: str, column: int) -> None:
        """.label NAME, ADDRESS: a word of memory, of which .data need not say the value; .label "TEXT": here, under any name."""
        found = _LABEL.fullmatch(rest)
        if found is None:
            at = column + len(rest) - len(rest.lstrip())
            hint = 'write `.label NAME, ADDRESS`, or `.label "TEXT"` for what is no name'
            raise _Wrong("RG0113", "expected the name of a label", at, column + max(len(rest.rstrip()), 1), hint)
        text, constant = found.groups()
        at = column + found.start(1)
        in_data = self.in_data or constant is not None
        address = len(self.data) if in_data else len(self.code)
        if constant is not None:
            where = column + found.start(2)
            self.format_fixed = True
            address = self._value(constant, where)
            if not 0 <= address <= MAX_DATA:
                raise _size(address, where, constant)
        labels = self.data_labels if in_data else self.labels
        if text[0] == '"':
            name = self._unescaped(text[1:-1], at + 1)
            if not name:
                raise _Wrong("RG0113", "a label without a name", at, at + 2)
            # It is written in no operand, so a label of the other section may have the same name.
            if name in labels:
                raise _Wrong("RG0107", f"the label {text} is already defined", at, at + len(text))
            self.defined_at.setdefault(name, (self.file.index, self.line_number))
        else:
            name = text
            self._claim(name, at)
        labels[name] = address

    def _memory(self, rest: str, column: int) -> None:
        ((text, at),) = self._arguments(rest, column, 1, ".memory WORDS")
        size = self._value(text, at)
        if not 0 <= size <= MAX_DATA:
            raise _size(size, at, text)
        self.memory = max(self.memory, size)

    def _section(self, data: bool, rest: str, column: int) -> None:
        self._arguments(rest, column, 0, ".data" if data else ".text")
        if data and self.procedure is not None:
            hint = "Put .data before the `proc` or after its `endproc`."
            raise _Wrong("RG0114", f"the procedure `{self.procedure[0]}` is open", column - 5, column, hint)
        self.in_data = data

    def _store(self, words: Iterable[int], column: int) -> None:
        self.data.extend(words)
        if len(self.data) > MAX_DATA:
            raise AssemblyError(*self.errors, Diagnostic("RG0116", f"more than {MAX_DATA} words of data"))

    def _need_data(self, column: int) -> None:
        if not self.in_data:
            begin = self.file.lines[self.line_number - 1].rindex(".", 0, column)
            raise _Wrong("RG0114", "data stands in .text", begin, column)
        self.format_fixed = True

    def _word(self, rest: str, column: int) -> None:
        self._need_data(column)
        at = column
        for part in _split_operands(rest):
            value = self._try(part, at)
            if value is None:
                where = (self.file.index, self.line_number, at + 1, at + len(part) + 1)
                self.data_fixups.append((len(self.data), part, at, where))
                value = 0
            self._store([self._fits_word(value, at, len(part))], column)
            at += len(part) + 1

    def _fits_word(self, value: int, at: int, length: int) -> int:
        if not -self.format.sign <= value <= self.format.mask:
            raise _Wrong("RG0105", f"{value} does not fit in {self.format.width} bits", at, at + length)
        return value & self.format.mask

    def _zero(self, rest: str, column: int) -> None:
        self._need_data(column)
        ((text, at),) = self._arguments(rest, column, 1, ".zero WORDS")
        count = self._value(text, at)
        if not 0 <= count <= MAX_DATA - len(self.data):
            raise _size(count, at, text)
        self._store([0] * count, column)

    def _quoted(self, rest: str, column: int) -> tuple[str, int]:
        text = rest.strip()
        at = column + len(rest) - len(rest.lstrip())
        found = _STRING.fullmatch(text)
        if found is None:
            raise _Wrong("RG0113", 'expected one string in "quotes"', at, at + max(len(text), 1))
        return found.group(1), at + 1

    def _ascii(self, rest: str, column: int) -> None:
        self._need_data(column)
        body, at = self._quoted(rest, column)
        out = self._unescaped(body, at).encode("utf-8", "surrogatepass")
        widest = max(out, default=0)
        self._fits_word(widest, at, len(body))
        self._store(out, column)

    def _unescaped(self, body: str, at: int) -> str:
        """The text that a string in quotes denotes."""

        def character(found: re.Match[str]) -> str:
            value = escape(found[1])
            if value is None:
                raise _Wrong("RG0113", f"unknown escape `{found[0]}`", at + found.start(), at + found.end())
            return chr(value)

        return re.sub(r"\\(.)", character, body, flags=re.DOTALL)

    def _include(self, rest: str, column: int) -> None:
        body, at = self._quoted(rest, column)
        if self.file.folder is None:
            raise _Wrong("RG0110", "a text without a file includes nothing", at, at + len(body))
        got = read_include(body, self.file.folder, self.roots)
        if isinstance(got, Diagnostic):
            raise _Wrong(got.code, got.message, at, at + max(len(body), 1))
        path, text = got
        shown = str(Path(self.file.name).parent / body)
        if path in self.open:
            raise _Wrong("RG0111", f"`{body}` is being read already", at, at + len(body))
        if len(self.open) > MAX_DEPTH:
            raise _Wrong("RG0111", f"includes nest more than {MAX_DEPTH} deep", at, at + len(body))
        self.open.append(path)
        in_data = self.in_data
        self.read(shown, text, path)
        self.in_data = in_data
        self.open.pop()

    # ------------------------------------------------------------ sugar

    def _emit(self, name: str, **fields: int) -> None:
        """One instruction of a sugar's expansion, at the current line."""
        word = self.table[name].code << CODE_SHIFT
        for field, value in fields.items():
            word |= (value & 0xFFFFFFFF) if field == "imm" else value << _FIELD_SHIFT[field]
        line = self.file.lines[self.line_number - 1]
        begin = len(line) - len(line.lstrip())
        self.code.append(word)
        self.spans.append((self.file.index, self.line_number, begin + 1, len(line.rstrip()) + 1))

    def _register(self, text: str, at: int) -> int:
        number = self.registers.get(text)
        if number is None:
            raise self._no_register(text, at)
        return number

    def _stack(self, push: bool, rest: str, column: int) -> None:
        """push r, sp: M[sp] <-> r, sp += 1; the place above the stack holds zero. pop is its inverse."""
        (first, at), (second, where) = self._arguments(rest, column, 2, f"{'push' if push else 'pop'} REGISTER, STACK")
        word, pointer = self._register(first, at), self._register(second, where)
        self._exchange_with_stack(push, word, pointer, at, where + len(second))

    def _exchange_with_stack(self, push: bool, word: int, pointer: int, at: int, end: int) -> None:
        if word == pointer:
            raise _Wrong("RG0108", "the stack pointer cannot be pushed on its own stack", at, end)
        if push:
            self._emit("exch", rd=word, ra=pointer)
            self._emit("imm.add", rd=pointer, imm=1)
        else:
            self._emit("imm.sub", rd=pointer, imm=1)
            self._emit("exch", rd=word, ra=pointer)

    def _proc(self, rest: str, column: int) -> None:
        """proc NAME, LINK [, STACK]: the head of a subroutine, link pushed on the stack if one is named."""
        count = 3 if rest.count(",") == 2 else 2
        arguments = self._arguments(rest, column, count, "proc NAME, LINK [, STACK]")
        (name, at), (link_text, where) = arguments[:2]
        if self.procedure is not None:
            raise _Wrong("RG0115", f"the procedure `{self.procedure[0]}` is still open", at, at + len(name))
        link = self._register(link_text, where)
        stack = self._register(*arguments[2]) if count == 3 else None
        self._name(name, at)
        for label in (f"{name}.top", name, f"{name}.bottom"):
            self._claim(label, at, len(name))
        span = (self.file.index, self.line_number, at + 1, at + len(name) + 1)
        self.procedure = (name, link, stack, span)
        self.labels[f"{name}.top"] = len(self.code)
        self.fixups.append(_Fixup(len(self.code), "target", f"{name}.bottom", at, self.table["from"]))
        self._emit("from")
        end = column + len(rest.rstrip())
        if stack is not None:
            self._exchange_with_stack(False, link, stack, where, end)
        self.labels[name] = len(self.code)
        self._emit("swapbr", rd=link)
        self._emit("neg", rd=link)
        if stack is not None:
            self._exchange_with_stack(True, link, stack, where, end)

    def _endproc(self, rest: str, column: int) -> None:
        self._arguments(rest, column, 0, "endproc")
        if self.procedure is None:
            raise _Wrong("RG0115", "no procedure is open", max(column - 7, 0), column)
        name = self.procedure[0]
        self.procedure = None
        self.labels[f"{name}.bottom"] = len(self.code)
        self.fixups.append(_Fixup(len(self.code), "target", f"{name}.top", max(column - 7, 0), self.table["goto"]))
        self._emit("goto")

    # ------------------------------------------------------------ second pass

    def finish(self) -> Program:
        """Fill in what the first pass left, and build the program. Raises AssemblyError."""
        if self.procedure is not None:
            name = self.procedure[0]
            self._report_at(self.procedure[3], "RG0115", f"the procedure `{name}` has no `endproc`")
            self.labels[f"{name}.bottom"] = len(self.code)
        for fixup in self.fixups:
            index, line, _, _ = self.spans[fixup.address]
            where = (index, line, fixup.column + 1, fixup.column + len(fixup.text) + 1)
            try:
                self.code[fixup.address] |= self._resolve(fixup) & 0xFFFFFFFF
            except (_Wrong, BadConstant) as e:
                self._report_late(where, e)
        for address, text, at, where in self.data_fixups:
            try:
                self.data[address] = self._fits_word(self._value(text, at), at, len(text))
            except (_Wrong, BadConstant) as e:
                self._report_late(where, e)
        if self.errors:
            raise AssemblyError(*self.errors)
        source = SourceMap(tuple(f.name for f in self.files), self.spans, tuple(f.lines for f in self.files))
        return Program(
            self.code, self.data, self.memory, self.format, self.labels, self.data_labels, source, self.table
        )

    def _report_late(self, where: tuple[int, int, int, int], e: _Wrong | BadConstant) -> None:
        """Report what only the second pass could know."""
        unknown = e.name if isinstance(e, BadConstant) else None
        hint = e.hint if isinstance(e, _Wrong) else None
        if unknown in self.registers:
            self._report_at(where, e.code, f"`{unknown}` is a register, and no part of a constant", _IN_A_REGISTER)
        else:
            self._report_at(where, e.code, e.message, nearest(unknown, self._symbols()) if unknown else hint)

    def _resolve(self, fixup: _Fixup) -> int:
        text, at = fixup.text, fixup.column
        if fixup.kind == "target":
            if text not in self.labels:
                hint, kind = nearest(text, self.labels), "not defined"
                if text in self.data_labels or text in self.constants:
                    hint, kind = "a branch goes to a label in .text", "not code"
                raise _Wrong("RG0106", f"the label `{text}` is {kind}", at, at + len(text), hint)
            assert fixup.opcode is not None
            return self._fits_jump(fixup.opcode, self.labels[text] - fixup.address, at, len(text))
        return self._fits_immediate(self._value(text, at), at, len(text))


def _split_operands(text: str) -> list[str]:
    """The pieces between commas; a comma in quotes is none."""
    return text.split(",") if "'" not in text else _OPERAND.findall(text + ",")


def _size(words: int, at: int, text: str) -> _Wrong:
    shown = str(words) if words.bit_length() < 200 else "so many"
    return _Wrong("RG0116", f"{shown} words, where 0 to {MAX_DATA} are possible", at, at + len(text))


def _moved(e: BadConstant, by: int) -> BadConstant:
    return BadConstant(e.code, e.message, e.start + by, e.end + by, e.name)


def _looks_like_register(text: str) -> bool:
    return len(text) > 1 and text[0] == "r" and text[1:].isdecimal()


def _without_comment(line: str) -> str:
    """The line up to the first ';' outside quotes."""
    if '"' not in line and "'" not in line:
        return line[: line.index(";")]
    quote = ""
    i = 0
    while i < len(line):
        c = line[i]
        if quote:
            if c == "\\":
                i += 1
            elif c == quote:
                quote = ""
        elif c in "\"'":
            quote = c
        elif c == ";":
            return line[:i]
        i += 1
    return line


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
    Raises AssemblyError or VerificationError with every fault found.
    """
    roots = tuple(p.resolve() for p in ([] if path is None else [path.parent]) + list(include))
    assembler = _Assembler(table, format_of(format), roots)
    if path is not None:
        path = path.resolve()
        assembler.open.append(path)
    assembler.read(name, text, path)
    program = assembler.finish()
    if check:
        verify(program)
    return program


def assemble_file(path: str | os.PathLike[str], **options: object) -> Program:
    """`assemble` for a file. Raises AssemblyError RG0118 for what is not text, InputError RG0514 for too much, OSError if unreadable."""
    with open(path, "rb", buffering=0) as file:
        data = read_stream(file, os.fspath(path), MAX_BYTES)
    return assemble(decode_text(data, os.fspath(path)), name=os.fspath(path), path=Path(path), **options)  # type: ignore[arg-type]
