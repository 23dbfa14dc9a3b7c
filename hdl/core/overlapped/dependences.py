"""Dependences between the instructions on their way: whether a register field of an earlier one names the register that a later one reads.

The fields are compared one cycle ahead, as the instructions move on, so the answers stand in registers.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.decoder import FIELDS
from retrograd.hdl.microword import Field

#: the fields that name registers, in the order of the bits of `Dependences`
NAMES = tuple(field.name.lower() for field in Field if field is not Field.NONE)


class Dependences(wiring.Component):
    """`of_running[i][j]`: field i of the instruction that executes is field j of the one that is read. `of_writing`: of the one that writes.

    They are undefined while no instruction is read.
    """

    def __init__(self) -> None:
        pairs = Out(len(NAMES)).array(len(NAMES))
        super().__init__(
            {
                #: the instructions that are decoded, read, and that execute
                "decoded": In(FIELDS),
                "read": In(FIELDS),
                "running": In(FIELDS),
                #: the decoded instruction is read in the next cycle; the one that is read executes
                "advance": In(1),
                "launch": In(1),
                "of_running": pairs,
                "of_writing": pairs,
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for i, x in enumerate(NAMES):
            for j, y in enumerate(NAMES):
                ahead, behind = self.read[x] == self.decoded[y], Signal(name=f"{x}_{y}")
                known = self.of_running[i][j]
                m.d.comb += behind.eq(Mux(self.advance, self.running[x] == self.decoded[y], known))
                m.d.sync += [known.eq(Mux(self.launch, ahead, behind)), self.of_writing[i][j].eq(behind)]
        return m


def names(field: Any, pairs: Any, name: str) -> Any:
    """Whether a written field of an earlier instruction names the register that the field `name` reads, by these pairs."""
    column = [row[NAMES.index(name)] for row in pairs]
    return Array([0, *column])[field]
