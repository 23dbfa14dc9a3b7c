"""Known values: which locals hold a constant, or a copy of another variable plus a constant, at each statement.

    Local t; t += c               t = c
    Local t; t += x; t += k       t = x + k      while x is not written
    Local t; t += f; t += k       the offset of t is k, for any f

A local is followed only if whole statements of its own block update it. Both the constant-propagation lattice (constant,
or unknown) and the copy lattice are kept in one `KnownValue`. The clock counts statements, so that two walks of one body
in the same order meet the same values.
Source: G. A. Kildall, A unified approach to global program optimization, POPL 1973; here without joins, as a value that
differs between two branches belongs to a local that is not followed.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.cost_model import length, trip_values
from retrograd.compiler.ir.opcode_facts import facts, is_rounded, operand, word_after


class KnownValue(NamedTuple):
    """base + offset, both words; a constant where there is no base."""

    base: ir.Var | None
    offset: int


KNOWN_ZERO = KnownValue(None, 0)


class KnownValues:
    """The values of the locals of one body at the clock, after a survey of where each local lives and is written."""

    def __init__(self, module: ir.Module, body: ir.Block) -> None:
        self.w = module.format
        self.recorded = module.recorded
        self._procedures = module.procedures
        self.clock = 0
        #: local -> the clock at the start of the block that it lives in; that at its end
        self.births: dict[ir.Var, int] = {}
        self._ends: dict[ir.Var, int] = {}
        #: variable -> the clocks at which it is written
        self._writes: dict[ir.Var, list[int]] = {}
        #: locals that are not followed: a statement that changes them is not one update in their own block
        self._untracked: set[ir.Var] = set()
        #: the values of the locals at the clock
        self.values: dict[ir.Var, KnownValue] = {}
        #: which part of their word is a sum of constants
        self.offsets: dict[ir.Var, int] = {}
        #: locals whose value is unknown at some statement; locals whose offset is
        self.unknown: set[ir.Var] = set()
        self.unknown_offset: set[ir.Var] = set()
        self._survey(body)
        self._untracked |= self.births.keys() - self._ends.keys()
        self.unknown |= self._untracked
        self.restart()

    def restart(self) -> None:
        """Set the clock to the start of the body, for a walk in the order of the survey."""
        self.clock = 0
        self.values.clear()
        self.offsets.clear()

    # ------------------------------------------------------------------ the survey

    def _survey(self, block: ir.Block) -> None:
        birth = self.clock
        for node in block:
            self.clock += 1
            match node:
                case ir.Op(opcode):
                    written = facts(opcode).written
                    for place in written:
                        x = operand(node, place)
                        if isinstance(x, ir.Var):
                            self._note_write(x)
                            if self.births.get(x) != birth or len(written) > 1:
                                self._untracked.add(x)
                case ir.Local(var):
                    if var in self.births:
                        self._untracked.add(var)
                    self.births[var] = birth
                    self._note_write(var)
                case ir.Delocal(var):
                    if self.births.get(var) != birth:
                        self._untracked.add(var)
                    self._ends[var] = self.clock
                    self._note_write(var)
                case ir.Within(compute, body):
                    self._survey(compute)
                    self._survey(body)
                    # compute⁻¹ writes the same variables again, but no copy of them is alive there.
                    self.clock += 1
                    for inner in compute:
                        if isinstance(inner, ir.Local):
                            self._ends.setdefault(inner.var, self.clock)
                case ir.For(var, body=body):
                    if var in self.births or length(trip_values(node, self.w) or range(0)) != 1:
                        self._untracked.add(var)
                    self._note_write(var)
                    self.births[var] = -1
                    self._survey(body)
                    self._ends[var] = self.clock
                case ir.If(_, then, orelse):
                    self._survey(then)
                    self._survey(orelse)
                case ir.While(_, body):
                    self._survey(body)
                case ir.Call(name, args):
                    for i in self._procedures[name].written:
                        x = args[i]
                        if isinstance(x, ir.Var):
                            self._note_write(x)
                            self._untracked.add(x)
                case ir.Check() | ir.External():
                    pass

    def _note_write(self, var: ir.Var) -> None:
        self._writes.setdefault(var, []).append(self.clock)

    def _written_before(self, var: ir.Var, end: int) -> bool:
        """Whether the variable is written between the clock and the end."""
        writes = self._writes.get(var, [])
        i = bisect_left(writes, self.clock)
        return i < len(writes) and writes[i] < end

    # ------------------------------------------------------------------ the walk

    def begin(self, node: ir.Local) -> None:
        if node.var not in self._untracked:
            self.values[node.var] = KNOWN_ZERO
            self.offsets[node.var] = 0

    def end(self, node: ir.Delocal) -> None:
        if self.values.pop(node.var, None) != KNOWN_ZERO:
            self.unknown.add(node.var)
        if self.offsets.pop(node.var, 0):
            self.unknown_offset.add(node.var)

    def enter(self, loop: ir.For) -> None:
        """The variable of a loop of one pass is a constant."""
        if loop.var not in self._untracked:
            self.values[loop.var] = KnownValue(None, (trip_values(loop, self.w) or range(1))[0] & self.w.mask)

    def follow(self, op: ir.Op) -> None:
        """Bring values and offsets up to date with the instruction."""
        for place in facts(op.opcode).written:
            x = operand(op, place)
            if isinstance(x, ir.Var) and x in self.births:
                new = None if x in self._untracked else self._value_after(op, x)
                if new is None:
                    self.unknown.add(x)
                    self.values.pop(x, None)
                else:
                    self.values[x] = new
                if x in self.offsets and not self._shift(op, x):
                    self.unknown_offset.add(x)

    def of(self, x: ir.Operand | None) -> KnownValue | None:
        match x:
            case ir.Const(word):
                return KnownValue(None, word & self.w.mask)
            case ir.Var():
                return self.values.get(x, KnownValue(x, 0))
        return None

    def adds_constant(self, op: ir.Op) -> bool:
        """Whether the instruction moves a constant into its target."""
        value = self.of(op.a)
        return op.opcode.entry.name == "mov" and value is not None and value.base is None

    def _shift(self, op: ir.Op, d: ir.Var) -> bool:
        """Add the constant that the instruction adds to the offset of d. False if it is no plain sum."""
        f = facts(op.opcode)
        if f.function is None or f.checked or op.opcode.update not in ("add", "sub"):
            return False
        if self.adds_constant(op):
            value = self.of(op.a)
            assert value is not None
            sign = 1 if op.opcode.update == "add" else -1
            self.offsets[d] = (self.offsets[d] + sign * value.offset) & self.w.mask
        return True

    def _value_after(self, op: ir.Op, d: ir.Var) -> KnownValue | None:
        """The value of d after an update of it, or None if that is no constant and no copy."""
        old = self.values.get(d)
        if old is None or op.d is not d or facts(op.opcode).memory or (self.recorded and is_rounded(op.opcode)):
            return None
        a, b = self.of(op.a), self.of(op.b)
        if old.base is None and (a is None or a.base is None) and (b is None or b.base is None):
            words = tuple(None if x is None else x.offset for x in (a, b))
            word = word_after(op.opcode, old.offset, words[0], words[1], op.imm, self.w)
            return None if word is None else KnownValue(None, word)
        if a is None or b is not None:
            return None
        return self._sum_after(op, d, old, a)

    def _sum_after(self, op: ir.Op, d: ir.Var, old: KnownValue, a: KnownValue) -> KnownValue | None:
        """d ± a, where that is a variable and a constant, and nothing tests the sum."""
        match op.opcode.name:
            case "mov.add" if old.base is None or a.base is None:
                new = KnownValue(old.base or a.base, (old.offset + a.offset) & self.w.mask)
            case "fmov.add" | "lmov.mul" if old == KNOWN_ZERO and not a.offset:
                new = a
            case "mov.sub" if a.base is None or a.base is old.base:
                base = old.base if a.base is None else None
                new = KnownValue(base, (old.offset - a.offset) & self.w.mask)
            case _:
                return None
        if new.base is not None and self._written_before(new.base, self._ends[d]):
            return None
        return new
