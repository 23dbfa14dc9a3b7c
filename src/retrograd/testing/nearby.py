"""The loss of a program at arguments near x, in its own format or in a format with more places."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from retrograd.compiler.compiled import Compiled
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.pipeline import Argument
from retrograd.isa.diagnostics import RetrogradError
from retrograd.isa.words import Format
from retrograd.runtime._binding import types_of
from retrograd.simulator.machine import Machine, Trap
from retrograd.testing.laws import Subject, cells
from retrograd.testing.slopes import Slopes, noise_of, slopes

#: additional binary places for differences
_FINER = 16
#: binary places of a format of 64 bits in which all functions can still be computed
_MOST = 60
#: neighbours by which the rounding of L is measured
_NEIGHBOURS = 6
#: rounding, in words, above which it is measured on the other side of x, too
_CALM = 64.0
#: rounding, in words, where it cannot be measured
_UNKNOWN = 4.0


@dataclass
class Nearby:
    """L of the program in some format, at words near x."""

    compiled: Compiled
    memory: list[int]
    loss: int
    noise: float = 0.5
    here: int | None = None

    @staticmethod
    def of(compiled: Compiled, words: Sequence[Sequence[int]], loss: Argument) -> Nearby:
        """The program at the words of each argument."""
        machine = Machine(compiled.program)
        for a, block in zip(compiled.arguments, words, strict=True):
            machine.load(a.address, block)
        address = loss.address
        made = Nearby(compiled, list(machine.memory), address)
        made.here = made.at({})
        return made

    @property
    def w(self) -> Format:
        return self.compiled.format

    def at(self, moves: dict[int, int]) -> int | None:
        """L with words moved, as an integer; None where it has no value. `rg.external` blocks are not executed."""
        machine = Machine(self.compiled.program)
        machine.memory[:] = self.memory
        for address, by in moves.items():
            kind = self.kinds[address]
            word, low = self.memory[address], self.w.mask if kind is Kind.FIXED else self.w.sign - 1
            size = self.w.sign if kind is Kind.FIXED else self.w.sign >> 1
            moved = signed(word & low, low) + by
            if not -size <= moved < size:
                return None
            machine.memory[address] = (word & ~low) | (moved & low)
        try:
            machine.run()
        except Trap:
            return None
        return self.w.signed(machine.memory[self.loss])

    @cached_property
    def kinds(self) -> dict[int, Kind]:
        """The kind of each word of an argument."""
        return {a.address + i: c.kind for a in self.compiled.arguments for i, c in enumerate(cells(a.type, a.name))}

    def measure(self, moved: Sequence[int]) -> bool:
        """Measure the rounding of L between neighbours of x; returns whether L has a value there."""
        # A jump at x is not rounding, so the side with less of it counts. Adjacent words may all be rounded alike; words at a
        # distance of 2^-(5F/8) are not, and L is still close to a parabola there.
        apart = (1 << 3 * self.w.frac // 8) + 1
        self.noise = math.inf
        for side in (1, -1):
            values = [self.here, *(self.at(dict.fromkeys(moved, side * apart * k)) for k in range(1, _NEIGHBOURS + 1))]
            self.noise = min(self.noise, noise_of(values))
            if self.noise < _CALM:
                break
        if math.isinf(self.noise):
            self.noise = _UNKNOWN
        return self.here is not None

    def slopes(self, address: int, kind: Kind, first: int, enough: float) -> Slopes:
        """∂L/∂(fixed), or ∂L/∂ln|lognum|."""
        frac = self.w.frac
        last = first + self.w.frac // 2
        steps = [1 << (frac - k) for k in range(first, min(last, frac) + 1) if frac - k < self.w.width - 2]
        per = 1.0 if kind is Kind.FIXED else 1 / math.log(2)
        found = slopes(lambda k: self.at({address: k}), self.here or 0, steps, self.noise, enough / per)
        return found.scaled(per)


def signed(word: int, low: int) -> int:
    """The low bits as a signed integer, where `low` masks them."""
    sign = (low + 1) >> 1
    return (word ^ sign) - sign


def finer(s: Subject, own: Nearby, loss: Argument, steps: int) -> Iterator[Nearby]:
    """The same in formats with more places, as long as L agrees with that in the program's own format."""
    w = s.compiled.format
    if own.here is None:
        return
    here = own.here / 2.0**w.frac
    # A value that wraps, or is cut into bits, differs by more than this.
    close = max(16 * (steps + 8) * 2.0**-w.frac, 2.0 ** -(w.frac // 2)) * max(1.0, abs(here))
    for more in (_FINER, _FINER // 2):
        # A narrow format gets its places in a wider word; a word of 64 bits loses places before the point.
        places = min(_MOST, w.frac + max(more, 64 - w.width))
        if places <= w.frac:
            return
        format = Format(64, places)
        try:
            compiled = s.function.compiled_for(types_of(s.function, s.values), format)
            words = []
            for a in compiled.arguments:
                own_words = own.memory[a.address : a.address + a.type.size]
                kinds = (cell.kind for cell in cells(a.type, a.name))
                words.append([_widened(word, kind, w, format) for word, kind in zip(own_words, kinds, strict=True)])
        except (RetrogradError, OverflowError):
            continue
        made = Nearby.of(compiled, words, loss)
        if made.here is not None and abs(made.here / 2.0**places - here) <= close:
            yield made


def _widened(word: int, kind: Kind, w: Format, to: Format) -> int:
    """The same value in another format. Raises OverflowError."""
    up = to.frac - w.frac
    match kind:
        case Kind.FIXED:
            value, low = w.signed(word) << up, to.sign
        case Kind.LOGNUM:
            value, low = signed(word & (w.sign - 1), w.sign - 1) << up, to.sign >> 1
        case _:
            return w.signed(word) & to.mask
    if not -low <= value < low:
        raise OverflowError
    if kind is Kind.LOGNUM:
        return (value & (to.sign - 1)) | (to.sign if word & w.sign else 0)
    return value & to.mask
