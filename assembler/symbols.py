"""SymbolTable: the names of a program, the values of its constant expressions, and the ranges of its fields."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from retrograd.assembler.constants import evaluate
from retrograd.assembler.lexer import TextFault
from retrograd.assembler.sources import Sources
from retrograd.isa.diagnostics import nearest
from retrograd.isa.entries import Opcode
from retrograd.isa.words import Format

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
