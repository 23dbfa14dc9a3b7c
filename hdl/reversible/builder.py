"""Gates under construction: a pool of ancillas, blocks that are uncomputed, and bits that may be constants.

A bit is a line, or FALSE or TRUE: a constant costs no line. A line that is returned to the pool must be 0; `within` returns exactly
those lines that it took, after it has undone the gates that changed them. A line that outlives the body of a block is taken by `keep`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from retrograd.hdl.reversible.adders import carries, takahashi
from retrograd.hdl.reversible.circuit import Gate

T = TypeVar("T")

Bit = int
FALSE: Bit = -1
TRUE: Bit = -2
Bits = Sequence[Bit]


def constant_bits(value: int, width: int) -> list[Bit]:
    """The bits of a constant, lowest first."""
    return [TRUE if value >> i & 1 else FALSE for i in range(width)]


@dataclass
class _Block:
    """A block that is open: the lines that its computation, or then its body, has taken from the pool."""

    taken: set[int] = field(default_factory=set)
    #: of a body: the lines that the computation before it has touched, and its inverse will touch again
    touched: frozenset[int] | None = None


class Builder:
    """A list of gates that grows, and its lines."""

    def __init__(self) -> None:
        self.gates: list[Gate] = []
        self.lines = 0
        self._free: list[int] = []
        self._open = [_Block()]
        #: the most lines that were used at a time since this was last set
        self.most = 0

    # ------------------------------------------------------------------ lines

    def inputs(self, count: int) -> list[int]:
        """New lines that the surroundings set."""
        first = self.lines
        self.lines += count
        return list(range(first, self.lines))

    @property
    def used(self) -> int:
        """Lines outside of the pool."""
        return self.lines - len(self._free)

    def fresh(self, count: int = 1) -> list[int]:
        """Lines that are 0, from the pool."""
        out = [self._free.pop() for _ in range(min(count, len(self._free)))]
        out += self.inputs(count - len(out))
        self._open[-1].taken.update(out)
        self.most = max(self.most, self.used)
        return out

    def keep(self, count: int = 1) -> list[int]:
        """Lines that are 0, and may be held beyond the bodies that are open, to the end of the computation around them."""
        avoided: set[int] = set()
        block = self._open[0]
        for inner in reversed(self._open):
            if inner.touched is None:
                block = inner
                break
            avoided |= inner.touched
        out = [line for line in reversed(self._free) if line not in avoided][:count]
        chosen = set(out)
        self._free = [line for line in self._free if line not in chosen]
        out += self.inputs(count - len(out))
        block.taken.update(out)
        self.most = max(self.most, self.used)
        return out

    def give_back(self, lines: Sequence[int]) -> None:
        """Return lines to the pool. Trap: they must be 0; `verification.py` checks it.

        A line that was taken outside of an open computation stays out of the pool, since the inverse of the computation changes it.
        """
        for line in reversed(lines):
            for block in reversed(self._open):
                if line in block.taken:
                    block.taken.remove(line)
                    self._free.append(line)
                    break
                if block.touched is None:
                    break

    @property
    def taken(self) -> frozenset[int]:
        """The lines that the innermost open block holds."""
        return frozenset(self._open[-1].taken)

    # ----------------------------------------------------------------- blocks

    def within(self, compute: Callable[[], T], body: Callable[[T], None]) -> None:
        """compute; body; compute⁻¹. The lines that `compute` takes are 0 again, and go back to the pool.

        Traps: `body` must not change lines that `compute` reads or writes. It must not hold a line that it takes by `fresh`:
        `compute` may have used that line, and its inverse will. Raises ValueError where it holds one; take it by `keep`.
        """
        start = len(self.gates)
        self._open.append(_Block())
        value = compute()
        taken, end = self._open.pop().taken, len(self.gates)
        part = self.gates[start:end]
        self._open.append(_Block(touched=frozenset(line for c, t in part for line in c + t)))
        body(value)
        if self._open.pop().taken:
            raise ValueError("a line that is taken within a block would be used by the inverse of its computation")
        self.gates += part[::-1]
        self._free += sorted(taken, reverse=True)

    def inverted(self, action: Callable[[], None]) -> None:
        """The gates of `action` in reverse order, which undo it. `action` must not keep lines."""
        start = len(self.gates)
        action()
        self.gates[start:] = self.gates[start:][::-1]

    # ------------------------------------------------------------------ gates

    def flip(self, target: int, *conditions: Bit) -> None:
        """target ⊕= AND of the conditions, which may be constants and may repeat."""
        if FALSE not in conditions:
            self.gates.append(Gate(tuple(dict.fromkeys(c for c in conditions if c != TRUE)), (target,)))

    def exchange(self, left: int, right: int, *conditions: Bit) -> None:
        """Exchange two lines where all conditions are 1."""
        if FALSE not in conditions:
            self.gates.append(Gate(tuple(dict.fromkeys(c for c in conditions if c != TRUE)), (left, right)))

    def flip_each(self, targets: Sequence[int], bits: Bits, *conditions: Bit) -> None:
        """targets[i] ⊕= bits[i] AND conditions."""
        for target, bit in zip(targets, bits, strict=True):
            self.flip(target, bit, *conditions)

    def copy(self, bits: Bits) -> list[int]:
        """The bits on fresh lines."""
        out = self.fresh(len(bits))
        self.flip_each(out, bits)
        return out

    def distinct(self, bits: Bits, apart: Sequence[int] = ()) -> list[int]:
        """The bits as lines that differ from each other and from `apart`; constants and repetitions are copied."""
        seen, out = set(apart), []
        for bit in bits:
            line = self.copy([bit])[0] if bit < 0 or bit in seen else bit
            seen.add(line)
            out.append(line)
        return out

    # ---------------------------------------------------------------- in place

    def add(self, target: Sequence[int], value: Bits) -> None:
        """target += value mod 2^n; a shorter value is extended by zeros. The inverse is `subtract`."""
        bits = [*value[: len(target)], *[FALSE] * (len(target) - len(value))]
        low = 0
        while low < len(bits) and bits[low] == FALSE:
            low += 1
        if low == len(bits):
            return
        rest = target[low:]
        self.within(lambda: self.distinct(bits[low:], rest), lambda a: self.gates.extend(takahashi(a, rest)))

    def subtract(self, target: Sequence[int], value: Bits) -> None:
        """target −= value mod 2^n. The inverse is `add`."""
        self.inverted(lambda: self.add(target, value))

    def add_where(self, target: Sequence[int], value: Bits, condition: Bit) -> None:
        """target += value where the condition is 1."""
        if condition == TRUE:
            self.add(target, value)
        elif len(target) == 1 and value:
            self.flip(target[0], value[0], condition)
        elif condition != FALSE:
            self.within(lambda: self.masked(value[: len(target)], condition), lambda v: self.add(target, v))

    def masked(self, value: Bits, condition: Bit) -> list[Bit]:
        """value where the condition is 1, else 0; on fresh lines where it has to be."""
        out = []
        for bit in value:
            if FALSE in (bit, condition):
                out.append(FALSE)
            elif bit in (TRUE, condition):
                out.append(condition)
            else:
                (line,) = self.fresh()
                self.flip(line, bit, condition)
                out.append(line)
        return out

    # ------------------------------------------------------------- predicates

    def less(self, x: Bits, y: Bits) -> int:
        """A fresh line that is 1 where x < y, unsigned: the carry out of y + ¬x. No sum is formed."""
        (out,) = self.fresh()

        def operands() -> tuple[list[int], list[int]]:
            a = self.distinct(y)
            b = self.distinct(x, a)
            for line in b:
                self.flip(line)
            return a, b

        def compare(lines: tuple[list[int], list[int]]) -> None:
            a, b = lines
            if len(a) > 1:
                self.flip(out, a[-1])
            self.within(lambda: self.gates.extend(carries(a, b)), lambda _: self.flip(out, a[-1], b[-1]))

        self.within(operands, compare)
        return out

    def nonzero(self, bits: Bits) -> Bit:
        """1 where some bit is 1; on a fresh line unless it is one of the bits or constant."""
        some = list(dict.fromkeys(bit for bit in bits if bit != FALSE))
        if TRUE in some:
            return TRUE
        if len(some) < 2:
            return some[0] if some else FALSE
        (out,) = self.fresh()

        def negate() -> None:
            for line in some:
                self.flip(line)

        self.within(negate, lambda _: self.flip(out, *some))
        self.flip(out)
        return out

    def opposite(self, bit: Bit) -> Bit:
        """¬bit, on a fresh line unless it is constant."""
        if bit < 0:
            return FALSE if bit == TRUE else TRUE
        (out,) = self.copy([bit])
        self.flip(out)
        return out
