"""The logic unit: sums, bitwise operations, shifts, comparisons and selections, each within one cycle."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.units.gating import gated
from retrograd.hdl.microword import Operation


class LogicUnit(wiring.Component):
    """One adder, which also compares. One right shifter; a left shift reverses the bits before and after it.

    Raises ValueError for a width that is no power of two, since a shift amount is a field of bits.
    """

    def __init__(self, width: int, flags: bool = False, lacks: Collection[str] = ()) -> None:
        """`flags`: with a port for the overflow flag of sums and differences; `lacks`: operations of trees that this unit does not have."""
        if width < 2 or width & (width - 1):
            raise ValueError(f"words have a power of two of bits, not {width}")
        self.width = width
        self.flags = flags
        self.lacks = frozenset(lacks)
        super().__init__(
            {
                #: the operation
                "operation": In(Operation),
                #: the operands; of a selection: the condition, the word if it is nonzero, the word if it is zero
                "x": In(width),
                "y": In(width),
                "z": In(width),
                #: the result
                "result": Out(width),
                **({"fits": Out(1)} if flags else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        x, y, width = self.x, self.y, self.width
        is_sum = Signal()
        m.d.comb += is_sum.eq((self.operation == Operation.ADD) | (self.operation == Operation.ADDFITS))

        # x + y, or x + ¬y + 1. The carry in is one more bit below.
        total, addend = Signal(width + 1), Signal(width)
        m.d.comb += addend.eq(Mux(is_sum, y, ~y))
        m.d.comb += total.eq((Cat(~is_sum, x) + Cat(~is_sum, addend))[1:])
        word, carry = total[:width], total[width]
        overflow, equal = Signal(), Signal()
        m.d.comb += overflow.eq((x[-1] == addend[-1]) & (word[-1] != x[-1]))
        m.d.comb += equal.eq(x == y)
        less, below = Signal(), Signal()
        m.d.comb += [less.eq(word[-1] ^ overflow), below.eq(~carry)]

        if self.flags:
            m.d.comb += self.fits.eq(~overflow)

        # The shifter fills in the sign or zero.
        left = Signal()
        m.d.comb += left.eq(self.operation == Operation.SHL)
        fill = (self.operation == Operation.SAR) & x[-1]
        shifted = _shift_right(m, Mux(left, _turned(x), x), y[: (width - 1).bit_length()], fill, width)

        op = Operation
        results: dict[tuple[Operation, ...], Any] = {
            (op.ADD, op.SUB): word,
            (op.AND,): x & y,
            (op.OR,): x | y,
            (op.XOR,): x ^ y,
            (op.SHR, op.SAR): shifted,
            (op.SHL,): _turned(shifted),
            (op.EQ,): equal,
            (op.NE,): ~equal,
            (op.LT,): less,
            (op.GE,): ~less,
            (op.LTU,): below,
            (op.GEU,): ~below,
            (op.ADDFITS, op.SUBFITS): ~overflow,
            (op.SELECT,): Mux(x.any(), y, self.z),
        }
        # Gates in place of a multiplexer: synthesis can put the result that arrives last next to the output.
        pairs = []
        for operations, result in results.items():
            had = [operation for operation in operations if operation.name.lower() not in self.lacks]
            if had:
                gate = Signal(name=f"is_{had[0].name.lower()}")
                m.d.comb += gate.eq(self.operation.matches(*had))
                pairs.append((gate, result))
        m.d.comb += self.result.eq(gated(pairs))
        return m


def _turned(word: Any) -> Any:
    """The word with its bits in the opposite order."""
    return Cat(*reversed(word))


def _shift_right(m: Module, word: Any, amount: Any, fill: Any, width: int) -> Any:
    """A barrel shifter to the right: one stage for each bit of the amount."""
    for k, bit in enumerate(amount):
        stage = Signal(width, name=f"shifted_{1 << k}")
        m.d.comb += stage.eq(Mux(bit, Cat(word[1 << k :], fill.replicate(1 << k)), word))
        word = stage
    return word
