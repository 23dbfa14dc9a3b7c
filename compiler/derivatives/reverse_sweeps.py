"""Reverse sweeps without a forward sweep: lift(P⁻¹) from the words that P starts from, where P only accumulates.

    out += f(a)     becomes, on the way back,     m += |f(a)|        and for the loss also  total −= f(a)
    at the end      m += Σ |out|;  value := loss − total;  m and total are erased

The outputs keep the words that they have before P. If m does not overflow, no sum of P does, in any order, since each is at most
Σ |out| + Σ |f(a)|. If m overflows, P may or may not trap: a program with a forward sweep must then run in place of this one.
Correct for all other traps: where this program ends, P ends too (`accumulators.py`). Where it does not end, P may end in a trap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from retrograd.compiler.derivatives.accumulators import Role, Roles
from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.instruction_selection import updates
from retrograd.compiler.ir.opcode_facts import can_trap, facts, operand
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

_ABSOLUTE, _ERASE = TABLE["fabs.add"], TABLE["erase"]


@dataclass(frozen=True)
class Sums:
    """The variables that take the place of the accumulators: the sum of magnitudes, and the negative sum of the loss's terms."""

    magnitude: ir.Var
    total: ir.Var

    def of(self, roles: Iterable[Role]) -> tuple[ir.Var, ...]:
        """The variables that accumulators of these roles need."""
        given = set(roles)
        if Role.LOSS in given:
            return self.magnitude, self.total
        return (self.magnitude,) if Role.CHECKED in given else ()

    def in_place_of(self, op: ir.Op, role: Role, w: Format) -> list[ir.Node]:
        """The statements for an instruction of P⁻¹ that changes an accumulator."""
        f, update = facts(op.opcode), op.opcode.update
        if op.opcode.name == "exch":
            return []
        term: ir.Operand | None = op.b if op.opcode.entry.name in ("st", "fst") else None
        if op.opcode.entry.name in ("mov", "fmov"):
            term = op.a
        if term is not None:
            return self._terms(term, update, role, op)
        if role is Role.UNCHECKED and not can_trap(op.opcode, w):
            return []
        # The term is computed also where only its traps matter.
        t = ir.Var("term", ir.Kind.FIXED, op.span)
        made: ir.Block = (op._replace(opcode=op.opcode if update == "add" else TABLE.inverse(op.opcode), d=t),)
        if f.stores:
            # A register takes the place of the word in memory.
            assert f.function is not None
            places = {p: x for p in ("d", "b") if (x := operand(op, p)) is not None}
            made = updates([(t, "add", f.function.value(w))], places, w, op.span)
        return [
            ir.Local(t, False, op.span),
            *made,
            *self._terms(t, update, role, op),
            ir.Op(_ERASE, t, span=op.span),
            ir.Delocal(t, False, op.span),
        ]

    def _terms(self, term: ir.Operand, update: str | None, role: Role, op: ir.Op) -> list[ir.Node]:
        out: list[ir.Node] = []
        if role is not Role.UNCHECKED:
            out.append(ir.Op(_ABSOLUTE, self.magnitude, term, span=op.span))
        if role is Role.LOSS:
            out.append(ir.Op(TABLE[f"fmov.{update}"], self.total, term, span=op.span))
        return out

    def before(self) -> ir.Block:
        return ir.Local(self.magnitude), ir.Local(self.total)

    def after(self, roles: Roles, load: ir.Op | None = None, store: ir.Op | None = None) -> ir.Block:
        """Add the magnitudes of the accumulators' words, and free the variables.

        `load`, `store`: from the loss into a variable, and from there to the value of the loss.
        """
        out: list[ir.Node] = []
        for region, role in roles.items():
            if role is not Role.UNCHECKED and isinstance(region, ir.Region):
                out += self._magnitudes(region)
        if load is not None and store is not None:
            assert isinstance(load.d, ir.Var)
            t = load.d
            out += [
                ir.Local(t),
                load,
                ir.Op(TABLE["fmov.sub"], t, self.total),
                store,
                ir.Op(_ERASE, t),
                ir.Delocal(t),
            ]
        for x in (self.total, self.magnitude):
            out += [ir.Op(_ERASE, x), ir.Delocal(x)]
        return tuple(out)

    def _magnitudes(self, region: ir.Region) -> ir.Block:
        assert region.address is not None
        t = ir.Var("t", ir.Kind.FIXED, region.span)

        def added(at: ir.Operand, offset: int) -> ir.Block:
            load = ir.Op(TABLE["ld.add"], t, at, None, offset, region.span, region)
            return (ir.Within((ir.Local(t), load), (ir.Op(_ABSOLUTE, self.magnitude, t),), None, region.span),)

        if region.size == 1:
            return added(ir.Const(0), region.address)
        i = ir.Var("i", ir.Kind.INT, region.span)
        return (ir.For(i, ir.ZERO, ir.Const(region.size), 1, added(i, region.address), False, True, region.span),)
