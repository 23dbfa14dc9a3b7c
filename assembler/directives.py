"""Constant expressions: integers, characters, fixed-point literals, symbols, and operators on them.

Values are unbounded integers; a fixed-point literal such as `1.5q` is round(1.5 · 2^F), which is 0 for 0 alone. Nothing is evaluated
as Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import NamedTuple

from retrograd.assembler.lexer import (
    Position,
    Sources,
    TextFault,
    arguments,
    checked_name,
    escape,
    quoted,
    split_operands,
    unescaped,
)
from retrograd.isa.diagnostics import AssemblyError, nearest
from retrograd.isa.encoding import CODE_SHIFT, FIELD_SHIFT
from retrograd.isa.entries import Opcode
from retrograd.isa.program import MAX_DATA, ArrayLayout, Hints, Program, SourceMap, VariableLocation
from retrograd.isa.table import Table
from retrograd.isa.words import WIDTHS, Format

_REAL = r"(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?q\b"
#: a fixed-point literal in a constant
REAL = re.compile(rf"(?<![\w.]){_REAL}")
_TOKEN = re.compile(
    rf"\s*(?:(?P<real>{_REAL})"
    r"|(?P<int>0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|\d[\d_]*)(?![\w.])"
    r"|(?P<char>'(?:\\.|[^'\\])')"
    r"|(?P<name>[A-Za-z_][\w.]*)"
    r"|(?P<op><<|>>|[-+*/%&|^~()]))"
)
_LIKE_A_NUMBER = re.compile(r"\.?\d[\w.]*")
_BINARY = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
#: the most bits of a constant and of the steps to it: `1 << 1 << 40` must not fill the memory
_MAX_BITS = 4096
_MAX_DEPTH = 64


def tokens(text: str) -> list[tuple[str, str, int]]:
    """(kind, text, column) of every token. Raises TextFault."""
    out: list[tuple[str, str, int]] = []
    at = 0
    stripped = text.rstrip()
    while at < len(stripped):
        found = _TOKEN.match(stripped, at)
        if found is None:
            at += len(stripped[at:]) - len(stripped[at:].lstrip())
            wrong = _LIKE_A_NUMBER.match(stripped, at)
            if wrong is None:
                raise TextFault("RG0104", f"unexpected `{stripped[at]}` in a constant", at, at + 1)
            message = f"`{wrong[0][:40]}` is no number"
            if re.fullmatch(r"\d+\.\d*|\.\d+", wrong[0]):
                message = f"`{wrong[0][:40]}` is no integer: write {wrong[0][:40]}q for a fixed-point number"
            raise TextFault("RG0104", message, at, wrong.end())
        kind = str(found.lastgroup)
        out.append((kind, found.group(kind), found.start(kind)))
        at = found.end()
    return out


def evaluate(
    text: str,
    w: Format,
    symbol: Callable[[str], int | None],
    lost: Callable[[TextFault], None] | None = None,
) -> int:
    """The integer that the text denotes; `symbol` gives a name's value, or None if it has none (yet).

    `lost` takes a literal that loses more than half of its bits, as a fault that is not raised; without it, such literals pass.
    Raises TextFault: RG0104 malformed, RG0106 undefined, RG0105 out of range; with `lost`, RG0120 for a literal that becomes 0.
    """
    stream = tokens(text)
    end = len(text.rstrip())
    position = 0

    def fail(message: str, code: str = "RG0104", width: int = 1) -> TextFault:
        at = stream[position][2] if position < len(stream) else end
        return TextFault(code, message, at, at + width)

    def primary(depth: int) -> int:
        nonlocal position
        if depth > _MAX_DEPTH:
            raise fail("the expression nests too deeply")
        if position >= len(stream):
            raise fail("a constant is missing here")
        kind, word, at = stream[position]
        position += 1
        if kind == "int":
            if len(word) > _MAX_BITS // 4:
                raise TextFault("RG0105", "the number is too long", at, at + len(word))
            try:
                return int(word, 0 if word[:1] == "0" and word[1:2].isalpha() else 10)
            except ValueError:
                raise TextFault("RG0104", f"`{word}` is no number", at, at + len(word)) from None
        if kind == "real":
            return _real(word, w, at, lost)
        if kind == "char":
            body = word[1:-1]
            value = ord(body) if len(body) == 1 else escape(body[1])
            if value is None:
                raise TextFault("RG0104", f"unknown escape `{body}`", at, at + len(word))
            return value
        if kind == "name":
            value = symbol(word)
            if value is None:
                raise TextFault("RG0106", f"`{word}` is not defined", at, at + len(word), name=word)
            return value
        if word == "(":
            value = binary(1, depth + 1)
            if position >= len(stream) or stream[position][1] != ")":
                raise fail("`)` is missing")
            position += 1
            return value
        if word in "-+~":
            operand = primary(depth + 1)
            return {"-": -operand, "+": operand, "~": ~operand}[word]
        raise TextFault("RG0104", f"`{word}` cannot stand here", at, at + len(word))

    def binary(level: int, depth: int) -> int:
        nonlocal position
        left = primary(depth + 1)
        while position < len(stream):
            _, op, at = stream[position]
            if op not in _BINARY or _BINARY[op] < level:
                break
            position += 1
            right = binary(_BINARY[op] + 1, depth + 1)
            left = _apply(op, left, right, at)
        return left

    value = binary(1, 0)
    if position < len(stream):
        raise fail(f"unexpected `{stream[position][1]}`", width=len(stream[position][1]))
    return value


def _apply(op: str, x: int, y: int, at: int) -> int:
    match op:
        case "+":
            value = x + y
        case "-":
            value = x - y
        case "*":
            value = x * y
        case "/" | "%":
            if y == 0:
                raise TextFault("RG0104", "division by zero in a constant", at, at + 1)
            value = x // y if op == "/" else x % y
        case "&":
            value = x & y
        case "|":
            value = x | y
        case "^":
            value = x ^ y
        case _:
            if not 0 <= y <= _MAX_BITS:
                raise TextFault("RG0105", f"shift by {y} in a constant", at, at + 2)
            value = x << y if op == "<<" else x >> y
    if value.bit_length() > _MAX_BITS:
        raise TextFault("RG0105", "the constant is too large", at, at + len(op))
    return value


def _real(word: str, w: Format, at: int, lost: Callable[[TextFault], None] | None) -> int:
    digits = word[:-1].replace("_", "")
    exponent = re.search(r"[eE]([+-]?\d+)$", digits)
    if len(digits) > 200 or (exponent and abs(int(exponent.group(1))) > 400):
        raise TextFault("RG0105", f"`{word[:20]}…` is too long a literal", at, at + len(word))
    number = Fraction(digits)
    value = round(number * (1 << w.frac))
    # The sign is an operator, so the largest magnitude allowed here is that of the most negative number.
    if value > w.sign:
        raise TextFault("RG0105", f"{word} does not fit {w}", at, at + len(word))
    if lost is not None and not w.keeps(number):
        end, hint = at + len(word), w.remedy(number)
        if value == 0:
            raise TextFault("RG0120", f"{word} would be 0 in {w}", at, end, hint)
        lost(TextFault("RG0120", f"{word} is {float(w.to_real(value)):.6g}q in {w}", at, end, hint))
    return value


# -----------------------------------------------------------------------------
# SymbolTable: the names of a program, the values of its constant expressions, and the ranges of its fields.

REGISTERS = {f"r{i}": i for i in range(256)}


class SymbolTable:
    """Labels of code and data, constants, names of registers; a name has one meaning in a program and its includes."""

    def __init__(self, sources: Sources, w: Format) -> None:
        self.sources = sources
        self._strict = False
        self.format = w
        #: a value depends on the format already, so `.format` comes too late
        self.format_fixed = False
        self.labels: dict[str, int] = {}
        self.data_labels: dict[str, int] = {}
        self.constants: dict[str, int] = {}
        self.registers = dict(REGISTERS)
        #: name -> (index of the file, line)
        self.defined_at: dict[str, tuple[int, int]] = {}

    # ------------------------------------------------------------ names

    def names(self) -> list[str]:
        """The names that may stand in a constant."""
        return [*self.labels, *self.data_labels, *self.constants]

    def claim(self, name: str, at: int, length: int | None = None) -> None:
        """Reserve a name for the line that is being read. Raises TextFault RG0107 where it has a meaning already."""
        end = at + (len(name) if length is None else length)
        if name in REGISTERS:
            raise TextFault("RG0107", f"`{name}` is a register", at, end, "choose a name that is no register")
        if name in self.defined_at:
            index, line = self.defined_at[name]
            raise TextFault(
                "RG0107", f"`{name}` is already defined at {self.sources.files[index].name}:{line}", at, end
            )
        self.defined_at[name] = self.sources.file.index, self.sources.line

    def register(self, text: str, at: int) -> int:
        """The number of a register. Raises TextFault RG0103."""
        number = self.registers.get(text)
        if number is None:
            raise self.no_register(text, at)
        return number

    def no_register(self, part: str, at: int) -> TextFault:
        """The fault of an operand that is not a register, with advice on the probable intention."""
        text = part.strip()
        begin = at + len(part) - len(part.lstrip())
        end = begin + len(text)
        if not text:
            return TextFault("RG0103", "a register is missing here", begin, end)
        hint = nearest(text, [n for n in self.registers if n not in REGISTERS])
        if text.startswith("["):
            hint = "use ld, st or exch for memory"
        elif hint is None and not looks_like_register(text) and self._is_constant(text):
            hint = f"put the constant into a register that is zero first: `add r9, {text}`"
        return TextFault("RG0103", f"`{text}` is not a register", begin, end, hint)

    def label(self, name: str, at: int) -> int:
        """The address of a label of code. Raises TextFault RG0106."""
        if name not in self.labels:
            hint, kind = nearest(name, self.labels), "not defined"
            if name in self.data_labels or name in self.constants:
                hint, kind = "a branch goes to a label in .text", "not code"
            raise TextFault("RG0106", f"the label `{name}` is {kind}", at, at + len(name), hint)
        return self.labels[name]

    # ------------------------------------------------------------ values

    def value(self, text: str, at: int) -> int:
        """The value of a constant expression. Raises TextFault RG0104, RG0105, RG0120, and RG0106 for a name without a value."""
        try:
            return evaluate(text, self.format, self._lookup, lambda fault: self._lost(fault.moved(at)))
        except TextFault as e:
            raise e.moved(at) from None

    @contextmanager
    def losses_as_faults(self) -> Iterator[None]:
        """Within, a literal that loses bits raises its fault, where otherwise it is a warning."""
        self._strict = True
        try:
            yield
        finally:
            self._strict = False

    def _lost(self, fault: TextFault) -> None:
        if self._strict:
            raise fault
        self.sources.warn(fault)

    def value_if_known(self, text: str, at: int) -> int | None:
        """The value of a constant expression, or None where it contains an undefined name."""
        plain = text.strip()
        if plain.isdecimal() and plain.isascii() and len(plain) < 19:
            return int(plain)
        try:
            return self.value(text, at)
        except TextFault as e:
            if e.code == "RG0106":
                return None
            raise

    def _lookup(self, name: str) -> int | None:
        for space in (self.constants, self.data_labels, self.labels):
            if name in space:
                return space[name]
        return None

    def plain_field(self, text: str) -> int | None:
        """The 32-bit field of a decimal integer, perhaps with a sign, that is a signed word of at most 32 bits; None for any other text.

        Every use of a constant in an instruction takes such an integer, and gives it this field.
        """
        try:
            value = int(text[1:]) if text[:1] in ("+", "-") else int(text)
        except ValueError:
            return None
        if text[:1] == "-":
            value = -value
        limit = self.format.sign
        return value & 0xFFFFFFFF if -limit <= value < limit and -(1 << 31) <= value < 1 << 31 else None

    def _is_constant(self, text: str) -> bool:
        try:
            evaluate(text, self.format, self._lookup)
            return True
        except TextFault:
            return False

    # ------------------------------------------------------------ ranges

    def as_immediate(self, value: int, at: int, length: int) -> int:
        """A constant as the 32-bit field holds it: a constant that fits the word, or 32 bits if the word is wider."""
        width = min(32, self.format.width)
        high = 1 << (width - 1) if self.format.width > 32 else 1 << width
        if not -(1 << (width - 1)) <= value < high:
            hint = None
            if self.format.width > 32:
                hint = "`add`, `sub` and `xor` take any word; others need it in a register"
            raise TextFault("RG0105", f"{value} does not fit in {width} bits", at, at + length, hint)
        return ((value & (1 << width) - 1) ^ (1 << width - 1)) - (1 << width - 1)

    def as_offset(self, opcode: Opcode, distance: int, at: int, length: int) -> int:
        """The constant of a branch over a distance: BR must hold it and its negative, which is the way back."""
        limit = min(self.format.sign, 1 << 31)
        if not -limit < distance < limit:
            message = f"a jump of {distance} instructions does not fit BR: {min(self.format.width, 32)} bits, both ways"
            raise TextFault("RG0105", message, at, at + length)
        return opcode.distance(distance)

    def as_word(self, value: int, at: int, length: int) -> int:
        """A constant as a word, signed or unsigned."""
        if not -self.format.sign <= value <= self.format.mask:
            raise TextFault("RG0105", f"{value} does not fit in {self.format.width} bits", at, at + length)
        return value & self.format.mask


def looks_like_register(text: str) -> bool:
    """Whether the text is `r` and a number, of a register that exists or not."""
    return len(text) > 1 and text[0] == "r" and text[1:].isdecimal()


# -----------------------------------------------------------------------------
# Layout: the code and data of a program as they grow, and the second pass, which fills in addresses.
#
# During the first pass, labels further down have no address yet. The pass leaves a fixup for each constant and target without a
# value, and `program` resolves the fixups once all labels have their addresses.

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
        #: hints: pairs of blocks, and accesses
        self.pairs: list[tuple[int, int, int, int]] = []
        self.accesses: list[tuple[int, int, int]] = []
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
        hints = Hints(tuple(self.pairs), tuple(self.accesses))
        variables = self._fixed_data()
        return Program(
            self.code,
            self.data,
            self.memory,
            symbols.format,
            *labels,
            source,
            self.table,
            names,
            variables,
            hints=hints,
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


# -----------------------------------------------------------------------------
# Directives: names, the format, memory, sections, data and includes.

_LABEL = re.compile(r'\s*("(?:\\.|[^"\\])*"|[A-Za-z_][\w.]*)\s*(?:,(.*))?', re.DOTALL)


class Directives:
    """Carries out the directives of a line. `read(name, text, path)` reads a file that is included."""

    def __init__(self, layout: Layout, read: Callable[[str, str, Path], None]) -> None:
        self.layout = layout
        self.symbols = layout.symbols
        self.sources = layout.sources
        self._read = read
        #: directive -> (rest of the line, its column) -> nothing
        self.words: dict[str, Callable[[str, int], None]] = {
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
            ".pair": self._pair,
            ".access": self._access,
        }

    # ------------------------------------------------------------ names and the format

    def _equ(self, rest: str, column: int) -> None:
        (name, at), (text, where) = arguments(rest, column, 2, ".equ NAME, CONSTANT")
        self.symbols.format_fixed = True
        value = self.symbols.value(text, where)
        self.symbols.claim(checked_name(name, at), at)
        self.symbols.constants[name] = value

    def _reg(self, rest: str, column: int) -> None:
        (name, at), (register, where) = arguments(rest, column, 2, ".reg NAME, REGISTER")
        number = self.symbols.register(register, where)
        self.symbols.claim(checked_name(name, at), at)
        self.symbols.registers[name] = number

    def _format(self, rest: str, column: int) -> None:
        (width, at), (frac, where) = arguments(rest, column, 2, ".format WIDTH, FRAC")
        end = where + len(frac)
        if self.symbols.format_fixed or self.layout.code or self.layout.data:
            raise TextFault("RG0117", "the format is set too late", at, end, "put it first in the program, once")
        bits, fraction = self.symbols.value(width, at), self.symbols.value(frac, where)
        if bits not in WIDTHS or not 0 <= fraction < bits:
            raise TextFault("RG0117", f"no format has {bits} bits, {fraction} of them fraction", at, end)
        self.symbols.format = Format(bits, fraction)
        self.symbols.format_fixed = True

    def _label(self, rest: str, column: int) -> None:
        """.label NAME, ADDRESS names a word of memory, with a value in .data or without; .label "TEXT" names this place."""
        found = _LABEL.fullmatch(rest)
        if found is None:
            at = column + len(rest) - len(rest.lstrip())
            hint = 'write `.label NAME, ADDRESS`, or `.label "TEXT"` for what is no name'
            raise TextFault("RG0113", "expected the name of a label", at, column + len(rest.rstrip()), hint)
        text, constant = found.groups()
        at = column + found.start(1)
        in_data = self.layout.in_data or constant is not None
        address = len(self.layout.data) if in_data else len(self.layout.code)
        if constant is not None:
            self.symbols.format_fixed = True
            address = self._words(constant, column + found.start(2))
        labels = self.symbols.data_labels if in_data else self.symbols.labels
        if text[0] == '"':
            name = unescaped(text[1:-1], at + 1)
            if not name:
                raise TextFault("RG0113", "a label without a name", at, at + 2)
            # It is written in no operand, so a label of the other section may have the same name.
            if name in labels:
                raise TextFault("RG0107", f"the label {text} is already defined", at, at + len(text))
            self.symbols.defined_at.setdefault(name, (self.sources.file.index, self.sources.line))
        else:
            name = text
            self.symbols.claim(name, at)
        labels[name] = address

    # ------------------------------------------------------------ memory and data

    def _words(self, text: str, at: int, most: int = MAX_DATA) -> int:
        """A number of words. Raises TextFault RG0116 for more than `most`."""
        count = self.symbols.value(text, at)
        if not 0 <= count <= most:
            shown = f"{count} words" if count.bit_length() < 200 else f"a count of words with {count.bit_length()} bits"
            raise TextFault("RG0116", f"{shown}, where 0 to {MAX_DATA} are possible", at, at + len(text))
        return count

    def _memory(self, rest: str, column: int) -> None:
        ((text, at),) = arguments(rest, column, 1, ".memory WORDS")
        self.layout.memory = max(self.layout.memory, self._words(text, at))

    def _section(self, data: bool, rest: str, column: int) -> None:
        arguments(rest, column, 0, ".data" if data else ".text")
        open_one = self.layout.subroutine
        if data and open_one is not None:
            hint = "Put .data before the `proc` or after its `endproc`."
            raise TextFault("RG0114", f"the procedure `{open_one.name}` is open", column - 5, column, hint)
        self.layout.in_data = data

    def _need_data(self, column: int) -> None:
        if not self.layout.in_data:
            begin = self.sources.file.lines[self.sources.line - 1].rindex(".", 0, column)
            raise TextFault("RG0114", "data stands in .text", begin, column)
        self.symbols.format_fixed = True

    def _word(self, rest: str, column: int) -> None:
        self._need_data(column)
        self.layout.store_constants(split_operands(rest), column)

    def _pair(self, rest: str, column: int) -> None:
        places = arguments(rest, column, 4, ".pair START, END, UNDO, AFTER")
        start, end, undo, after = (self.symbols.value(text, at) for text, at in places)
        self.layout.pairs.append((start, end, undo, after))

    def _access(self, rest: str, column: int) -> None:
        """.access BASE, WORDS, ADDRESS, … for each instruction that accesses the region."""
        count = max(3, len(split_operands(rest)))
        first, size, *places = arguments(rest, column, count, ".access BASE, WORDS, ADDRESS, …")
        base, words = self.symbols.value(*first), self.symbols.value(*size)
        self.layout.accesses += [(self.symbols.value(*place), base, words) for place in places]

    def _zero(self, rest: str, column: int) -> None:
        self._need_data(column)
        ((text, at),) = arguments(rest, column, 1, ".zero WORDS")
        self.layout.store([0] * self._words(text, at, MAX_DATA - len(self.layout.data)))

    def _ascii(self, rest: str, column: int) -> None:
        self._need_data(column)
        body, at = quoted(rest, column)
        data = unescaped(body, at).encode("utf-8", "surrogatepass")
        self.symbols.as_word(max(data, default=0), at, len(body))
        self.layout.store(data)

    def _include(self, rest: str, column: int) -> None:
        body, at = quoted(rest, column)
        in_data = self.layout.in_data
        self._read(*self.sources.included(body, at))
        self.layout.in_data = in_data
