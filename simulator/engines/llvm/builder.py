"""LLVM IR as text: modules, and instructions in SSA form."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from retrograd.isa.words import Format


def bits(value: float) -> int:
    """A double's bits."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def double(value: float) -> str:
    """A positive double as LLVM reads it exactly."""
    return f"0x{bits(value):016X}"


@dataclass
class Module:
    """LLVM IR under construction: what its functions need is declared and defined as they ask for it.

    `divide`: the host's instruction that divides two words by one, if it has one, as assembly and its constraints.
    `tables`: the address space of constant tables.
    """

    divide: tuple[str, str] | None = None
    tables: int = 0
    _globals: dict[str, str] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)

    def define(self, name: str, text: str) -> str:
        """A global definition or declaration, once for its name; the name."""
        self._globals.setdefault(name, text)
        return name

    def table(self, values: Sequence[int], w: Format) -> str:
        """A constant table's name."""
        words = [v & w.mask for v in values]
        digest = sha256(repr((w.width, words)).encode()).hexdigest()[:16]
        t = f"i{w.width}"
        entries = ", ".join(f"{t} {v}" for v in words)
        name = f"@table_{digest}"
        space = f"addrspace({self.tables}) " if self.tables else ""
        return self.define(name, f"{name} = internal unnamed_addr {space}constant [{len(words)} x {t}] [{entries}]")

    def text(self) -> str:
        return "\n\n".join([*self._globals.values(), *self.functions]) + "\n"


class Code:
    """A sequence of LLVM instructions in SSA form, on words of one instance, or of several side by side.

    `word`, `truth`: the types of words and of what is so or not; `number`, `real`: constants among them.
    """

    def __init__(self, module: Module, w: Format, prefix: str = "v", lanes: int = 1) -> None:
        self.module = module
        self.w = w
        self.lanes = lanes
        self.word, self.truth = self.side_by_side(f"i{w.width}"), self.side_by_side("i1")
        self.true = self._constant("i1", "true")
        self.false = self._constant("i1", "false")
        self.lines: list[str] = []
        self._prefix = prefix
        self._next = 0
        #: values at hand since the last label, by what computes them
        self._known: dict[str, str] = {}
        #: sums since the last label: result -> (operation, x, y, whether it is noted somewhere if it does not fit)
        self._sums: dict[str, tuple[str, str, str, bool]] = {}

    def side_by_side(self, type_: str) -> str:
        """A type, once for every lane."""
        return type_ if self.lanes == 1 else f"<{self.lanes} x {type_}>"

    def _constant(self, type_: str, text: str) -> str:
        return text if self.lanes == 1 else f"splat ({type_} {text})"

    def number(self, value: int) -> str:
        """A word, the same in every lane."""
        return self._constant(f"i{self.w.width}", str(self.w.signed(value)))

    def real(self, value: float) -> str:
        """A positive double, exactly, the same in every lane."""
        return self._constant("double", double(value))

    def suffix(self, type_: str) -> str:
        """What LLVM's functions on such a type are called after."""
        return type_ if self.lanes == 1 else f"v{self.lanes}{type_}"

    def name(self) -> str:
        self._next += 1
        return f"%{self._prefix}{self._next}"

    def let(self, text: str) -> str:
        """The value of an instruction: its name. What was computed since the last label is not computed again."""
        found = self._known.get(text)
        if found is None:
            found = self.name()
            self.lines.append(f"  {found} = {text}")
            if not text.startswith(("load", "alloca", "phi", "musttail")):
                self._known[text] = found
        return found

    def sum_is(self, result: str, op: str, x: str, y: str, noted: bool) -> None:
        """Remember that the result is x + y or x − y ("add", "sub")."""
        self._sums[result] = op, x, y, noted

    def undone(self, op: str, x: str, y: str) -> tuple[str, bool] | None:
        """What a sum comes to that undoes another: (x + y) − y = x, and its like; and whether, if it does not fit, it was noted
        that the other did not.

        Programs that run backward are full of them: a value computed, used, and computed again to be cleared. LLVM does not
        see it where sums are checked.
        """
        made = self._sums.get(x)
        if made is not None:
            before, a, b, noted = made
            if op == "sub" and before == "add" and y in (a, b):
                return (a if y == b else b), noted
            if op == "add" and before == "sub" and y == b:
                return a, noted
        made = self._sums.get(y)
        if made is not None:
            before, a, b, noted = made
            if before == "sub" and (a, op) == (x, "sub"):
                return b, noted
            if before == "sub" and (b, op) == (x, "add"):
                return a, noted
        return None

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self._known.clear()
        self._sums.clear()
