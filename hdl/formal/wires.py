"""The connections of a netlist without its copies: which bits of which cells a list of nets is, and which cells read a cell.

    x assigned unconditionally = x,  x ⊕ 0 = x,  ¬¬x = x,  ¬(x ⊕ 1) = x

In netlists of wide selections most cells are copies, so their evaluation would take most of the time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from retrograd.hdl.netlist import nir

#: bits of a cell's output: the cell, the lowest bit, the width; of a constant: None, its word, the width
Part = tuple[int | None, int, int]


class Wires:
    """The connections of these cells. `replaced`: cells whose words are not computed from their inputs alone, which are no copies."""

    def __init__(self, cells: Sequence[Any], replaced: Collection[int]) -> None:
        self._cells = cells
        self._replaced = replaced
        #: offsets of the inputs among all input bits
        self._begins = {start for start, _ in cells[0].ports_i.values()}
        self._parts: dict[Any, list[Part]] = {}
        #: cell -> the cells that read it; all cells, as a signal that no root depends on may be looked at
        self.readers: dict[int, list[int]] = {}
        for index, cell in enumerate(cells):
            for source in {net.cell for net in map(self._driver, cell.input_nets()) if net.is_cell}:
                self.readers.setdefault(source, []).append(index)

    def parts(self, value: Any) -> list[Part]:
        """The parts of a list of nets, the lowest first."""
        # A longer list is kept by the netlist, so its id stays valid.
        key = value if len(value) == 1 else id(value)
        found = self._parts.get(key)
        if found is None:
            self._parts[key] = found = self._of(value)
        return found

    def _of(self, value: Any) -> list[Part]:
        found: list[Part] = []
        for net in map(self._driver, value):
            cell, bit = (None, net.const) if net.is_const else (net.cell, net.bit)
            # All inputs are one cell; a part ends where the next input begins.
            apart = cell == 0 and bit in self._begins
            last = found[-1] if found else None
            if last and cell is not None and not apart and last[0] == cell and last[1] + last[2] == bit:
                found[-1] = (cell, last[1], last[2] + 1)
            elif last and cell is None and last[0] is None:
                found[-1] = (None, last[1] | bit << last[2], last[2] + 1)
            else:
                found.append((cell, bit, 1))
        return found or [(None, 0, 0)]

    def _driver(self, net: Any) -> Any:
        """The net that this one is a mere copy of."""
        source = net
        while source is not None:
            net, source = source, self._copied(source)
        return net

    def _copied(self, net: Any) -> Any:
        """The net that this one copies: by an unconditional assignment, x ⊕ 0, or ¬¬x; else None."""
        if not net.is_cell or net.cell in self._replaced:
            return None
        match self._cells[net.cell]:
            case nir.AssignmentList() as cell:
                source = cell.default[net.bit]
                for one in cell.assignments:
                    if 0 <= net.bit - one.start < len(one.value):
                        source = one.value[net.bit - one.start] if one.cond == nir.Net.from_const(1) else None
                return source
            case nir.Operator(operator="^") as cell:
                return self._other(cell, net.bit, 0)
            case nir.Operator(operator="~") as cell:
                return self._denied(self._driver(cell.inputs[0][net.bit]))
        return None

    def _denied(self, net: Any) -> Any:
        """The net x if this one is ¬x or x ⊕ 1; else None."""
        if not net.is_cell or net.cell in self._replaced:
            return None
        match self._cells[net.cell]:
            case nir.Operator(operator="^") as cell:
                return self._other(cell, net.bit, 1)
            case nir.Operator(operator="~") as cell:
                return cell.inputs[0][net.bit]
        return None

    @staticmethod
    def _other(cell: Any, bit: int, constant: int) -> Any:
        """The other input bit of an operator with this constant; else None."""
        x, y = (value[bit] for value in cell.inputs)
        return x if y == nir.Net.from_const(constant) else y if x == nir.Net.from_const(constant) else None
