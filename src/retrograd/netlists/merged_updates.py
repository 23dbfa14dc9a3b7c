"""Forward substitution of temporaries: a `Within` that computes them for one update, as a single update.

    within t += a; u += t · b do y += u   →   y += (0 + (0 + a) · b)

The schedule of the strategy `pebble` then decides which values are held, and which are computed again.
"""

from __future__ import annotations

from collections.abc import Callable

from retrograd.compiler.ir import statements as ir
from retrograd.isa.effects import UPDATE_OPERATORS, Update
from retrograd.isa.expr import ZERO, Expr, const, place, substitute
from retrograd.isa.words import Format
from retrograd.netlists.words import Cell


class _Merge:
    """Trees over the cells that live outside of the statement."""

    def __init__(self, w: Format, cell: Callable[[ir.Operand | None], Cell], at: Callable[[int], Cell]) -> None:
        self.w, self._cell, self._at = w, cell, at
        self.temporaries: dict[ir.Var, Expr] = {}
        self.cells: dict[str, Cell] = {}

    def _read(self, name: str, cell: Cell) -> Expr:
        self.cells[name] = cell
        return place(name)

    def _operand(self, operand: ir.Operand | None) -> Expr:
        if not isinstance(operand, ir.Var):
            return const(0 if operand is None else operand.word)
        known = self.temporaries.get(operand)
        return self._read(f"v{id(operand)}", self._cell(operand)) if known is None else known

    def update_of(self, op: ir.Op) -> Update | None:
        """The instruction as an update of its register by such a tree, or None."""
        effects = op.opcode.effects(self.w)
        if len(effects) != 1 or not isinstance(effects[0], Update) or effects[0].place != "d":
            return None
        update = effects[0]
        given = {"imm": const(op.imm), "a": self._operand(op.a), "b": self._operand(op.b)}
        if "m" in update.value.inputs:
            base = None if op.a in self.temporaries else self._cell(op.a).word.constant
            if base is None:
                return None
            address = (base + op.imm) & self.w.mask
            given["m"] = self._read(f"m{address}", self._at(address))
        return Update("d", update.operator, substitute(update.value, given))


def merged_update(
    node: ir.Within, w: Format, cell: Callable[[ir.Operand | None], Cell], at: Callable[[int], Cell]
) -> tuple[Update, dict[str, Cell]] | None:
    """The update of `d` that the statement makes, and the cells by the names of its places; None for any other statement."""
    merge = _Merge(w, cell, at)
    for inner in node.compute:
        match inner:
            case ir.Local(var):
                merge.temporaries[var] = ZERO
            case ir.Op(d=ir.Var() as d) if d in merge.temporaries:
                found = merge.update_of(inner)
                if found is None:
                    return None
                merge.temporaries[d] = UPDATE_OPERATORS[found.operator].combine(w, merge.temporaries[d], found.value)
            case ir.Check():
                pass
            case _:
                return None
    match node.body:
        case (ir.Op(d=ir.Var() as d) as op,) if d not in merge.temporaries:
            found = merge.update_of(op)
            if found is not None:
                return found, {"d": cell(d), **{name: merge.cells[name] for name in found.value.inputs}}
    return None
