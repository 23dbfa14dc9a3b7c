"""The logic unit: sums, bitwise operations, shifts, comparisons and selections, each within one cycle."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.units.gating import gated
from retrograd.hdl.microword import Operation


class LogicUnit(wiring.Component):
    """One adder, which also compares. One rotator, which also shifts. The result of an operation of another unit is 0.

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
        less, below_y = Signal(), Signal()
        m.d.comb += [less.eq(word[-1] ^ overflow), below_y.eq(~carry)]

        if self.flags:
            m.d.comb += self.fits.eq(~overflow)

        op = Operation

        def had(*operations: Operation) -> Any:
            """Whether the operation is one of these, and the unit has it."""
            of_unit = [operation for operation in operations if operation.name.lower() not in self.lacks]
            gate = Signal(name=f"is_{operations[0].name.lower()}")
            m.d.comb += gate.eq(self.operation.matches(*of_unit) if of_unit else 0)
            return gate

        # A shift is a rotation to the right without the bits that went round, in whose places are the sign or zeros.
        left, right, fills = had(op.SHL), had(op.SHR, op.SAR), had(op.SAR)
        amount = y[: (width - 1).bit_length()]
        below, kept = Signal(width), Signal(width)
        m.d.comb += below.eq(Cat(amount > place for place in range(width)))
        m.d.comb += kept.eq((left.replicate(width) & ~below) | (right.replicate(width) & ~Cat(*reversed(below))))
        rotated = _rotated(m, x, amount, left, width)

        truth = Signal()
        m.d.comb += truth.eq(
            gated(
                [
                    (had(op.LT), less), (had(op.GE), ~less), (had(op.LTU), below_y), (had(op.GEU), ~below_y),
                    (had(op.ADDFITS, op.SUBFITS), ~overflow),
                ]
            )
        )  # fmt: skip
        # Gates in place of a multiplexer. The words that arrive last stand next to the output.
        early = gated(
            [
                (had(op.AND), x & y), (had(op.OR), x | y), (had(op.XOR), x ^ y),
                (fills & x[-1], Cat(*reversed(below))),
                (had(op.EQ), equal), (had(op.NE), ~equal),
            ]
        )  # fmt: skip
        chosen = gated([(had(op.SELECT), Mux(x.any(), y, self.z))])
        late = (gated([(had(op.ADD, op.SUB), word)]) | truth) | (kept & rotated)
        m.d.comb += self.result.eq((early | chosen) | late)
        return m


def _rotated(m: Module, word: Any, amount: Any, left: Any, width: int) -> Any:
    """The word rotated to the right, or to the left: a stage for each bit of the amount, or of its negation."""
    any_below: Any = Const(0)
    for k, bit in enumerate(amount):
        stage = Signal(width, name=f"rotated_{1 << k}")
        m.d.comb += stage.eq(Mux(bit ^ (left & any_below), Cat(word[1 << k :], word[: 1 << k]), word))
        word, any_below = stage, any_below | bit
    return word
