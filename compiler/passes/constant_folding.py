"""Constant folding, constant propagation and copy propagation.

    Local t; t += c; … t … ; (t −= c; Delocal t)   →  … c …            also for a copy t += x, while x is not written
    y += f(c₁, c₂)                                  →  y += c           if no guard fails; a checked sum stays checked
    Local t; t += i; t += k; … [t + imm] …          →  … [i + (k + imm)] …
    Local t; t += f; t += k; … [t + imm] …          →  Local t; t += f; … [t + (k + imm)] …     if only addresses read t
    If, Check with a known test                     →  the branch; nothing. The test of the other end stays as a Check
    For of no pass, of one pass                     →  nothing; the body

A local is replaced only if its value is known at every statement of its life (`ir/known_values.py`), and each place that
reads it can hold the value. Constants are computed by the trees of the instruction table.
Correct because the value holds forward and backward: the updates are whole statements of the local's block.
Traps: unchanged. Cotangents: unchanged; a constant has none, and the cotangent of a copy is added to that of its original.
Cost: none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.instruction_selection import (
    constant_value,
    facts,
    is_rounded,
    move_for,
    operand,
    trip_values,
)
from retrograd.compiler.ir.ranges import KnownValues
from retrograd.compiler.ir.traversal import map_bodies, map_operands, operands_of
from retrograd.isa.diagnostics import Span
from retrograd.isa.expr import evaluate
from retrograd.isa.table import CONDITIONS
from retrograd.isa.words import Format


def fold_constants(module: ir.Module) -> ir.Module:
    """Compute at compile time the values that are known there."""

    lines = defaultdict[str, set[tuple[str, int]]](set)

    def fold(body: ir.Block) -> ir.Block:
        known = KnownValues(module, body)
        decisions = _Decisions(known)
        decisions.block(body)
        known.restart()
        return _Folding(known, decisions.needed, decisions.fixed, lines).rewrite(body)

    return map_bodies(module, fold).with_unsettled(lines)


class _Decisions:
    """The first walk: which locals can be replaced by their values.

    Trap: both walks must meet the same values, so `KnownValues` depends on nothing that is decided here.
    """

    def __init__(self, known: KnownValues) -> None:
        self.known = known
        #: locals that are read where their value cannot stand
        self.needed: set[ir.Var] = set()
        #: locals whose offset cannot be left to the addresses that read them
        self.fixed: set[ir.Var] = set()

    def block(self, block: ir.Block) -> None:
        known = self.known
        for node in block:
            known.clock += 1
            match node:
                case ir.Op(opcode):
                    for place in facts(opcode).read:
                        self.read(operand(node, place), node, place)
                    known.follow(node)
                case ir.Local():
                    known.begin(node)
                case ir.Delocal():
                    known.end(node)
                case ir.Within(compute, body):
                    self.block(compute)
                    self.block(body)
                    known.clock += 1
                case ir.For(_, start, stop, _, body):
                    self.read(start)
                    self.read(stop)
                    known.enter(node)
                    self.block(body)
                case ir.If() | ir.While() | ir.Check() | ir.Call() | ir.External():
                    for x in operands_of(node):
                        self.read(x)
                    for inside in ir.children(node):
                        self.block(inside)

    def read(self, x: ir.Operand | None, op: ir.Op | None = None, place: str = "") -> None:
        """Note if x is a local whose value cannot stand here in its place."""
        known = self.known
        if not isinstance(x, ir.Var) or x not in known.births:
            return
        value = known.values.get(x)
        if value is None:
            known.unknown.add(x)
        elif value.base is None:
            # An instruction names a register there, though it only reads it.
            if place == "d":
                self.needed.add(x)
        elif not self.takes_offset(value.offset, op, place):
            self.needed.add(x)
        if not self.takes_offset(known.offsets.get(x, 0), op, place):
            self.fixed.add(x)

    def takes_offset(self, offset: int, op: ir.Op | None, place: str) -> bool:
        """Whether the operand can be offset where it stands: always by zero, else only in an address."""
        if not offset:
            return True
        address = op is not None and place == "a" and facts(op.opcode).memory
        return address and op is not None and ir.fits_immediate(op.imm + self.known.w.signed(offset))


class _Folding:
    """The second walk: the rewriting."""

    def __init__(
        self,
        known: KnownValues,
        needed: set[ir.Var],
        fixed: set[ir.Var],
        lines: defaultdict[str, set[tuple[str, int]]],
    ) -> None:
        self.known = known
        #: variable -> the lines at which it lacks the constants that addresses have taken over, as in `ir.Module.unsettled`
        self.lines = lines
        self.lacking: set[ir.Var] = set()
        self.w = known.w
        self.values, self.offsets = known.values, known.offsets
        self.kept = known.unknown | needed
        self.fixed = known.unknown_offset | fixed

    def gone(self, var: ir.Var) -> bool:
        return var in self.known.births and var not in self.kept

    def shifted(self, var: ir.Var) -> bool:
        """Whether the constants that are added to the variable go to the addresses that read it."""
        return var in self.offsets and var not in self.fixed and not self.gone(var)

    def rewrite(self, block: ir.Block) -> ir.Block:
        known = self.known
        out: list[ir.Node] = []
        for node in block:
            known.clock += 1
            if self.lacking and node.span is not None:
                for var in self.lacking:
                    self.lines[var.name].update(node.span.lines())
            match node:
                case ir.Op():
                    new = self.substitute(node)
                    known.follow(node)
                    if not self.taken_over(node):
                        out.extend((new,) if known.recorded and is_rounded(new.opcode) else _fold_op(new, self.w))
                    elif isinstance(node.d, ir.Var) and not node.d.name.startswith("%") and self.shifted(node.d):
                        (self.lacking.add if self.offsets[node.d] else self.lacking.discard)(node.d)
                case ir.Local(var):
                    known.begin(node)
                    if not self.gone(var):
                        out.append(node)
                case ir.Delocal(var):
                    known.end(node)
                    if not self.gone(var):
                        out.append(node)
                case ir.Within(compute, body):
                    compute, body = self.rewrite(compute), self.rewrite(body)
                    known.clock += 1
                    out.extend((node._replace(compute=compute, body=body),) if compute else body)
                case ir.If() | ir.While():
                    inside = map_operands(node, self.stand_in)
                    out.extend(self.resolve(ir.with_children(inside, [self.rewrite(b) for b in ir.children(node)])))
                case ir.For():
                    out.extend(self.rewrite_for(node))
                case ir.Check() | ir.Call() | ir.External():
                    out.extend(self.resolve(map_operands(node, self.stand_in)))
        return tuple(out)

    def rewrite_for(self, loop: ir.For) -> ir.Block:
        new = loop._replace(start=self.stand_in(loop.start), stop=self.stand_in(loop.stop))
        self.known.enter(loop)
        new = new._replace(body=self.rewrite(loop.body))
        known = trip_values(new, self.w)
        if known is None:
            return (new,)
        if not known:
            return ()
        return new.body if self.gone(loop.var) else (new._replace(some=True),)

    def stand_in(self, x: ir.Operand) -> ir.Operand:
        """The replacement of an operand that is only read."""
        if not isinstance(x, ir.Var) or not self.gone(x):
            return x
        base, offset = self.values[x]
        return ir.Const(offset) if base is None else base

    def substitute(self, op: ir.Op) -> ir.Op:
        for place in facts(op.opcode).read:
            x = operand(op, place)
            if isinstance(x, ir.Var) and self.gone(x):
                base, offset = self.values[x]
                # Only an address can have both, and then takes the constant into its own.
                extra = self.w.signed(offset) if base is not None else 0
                new = self.stand_in(x)
                op = op._replace(a=new) if place == "a" else op._replace(b=new) if place == "b" else op._replace(d=new)
                op = op._replace(imm=op.imm + extra)
            elif isinstance(x, ir.Var) and self.shifted(x) and self.offsets[x]:
                op = op._replace(imm=op.imm + self.w.signed(self.offsets[x]))
        return op

    def taken_over(self, op: ir.Op) -> bool:
        """Whether the operands that read the target replace the instruction."""
        d = op.d
        if not isinstance(d, ir.Var) or not facts(op.opcode).written:
            return False
        return self.gone(d) or (self.shifted(d) and self.known.adds_constant(op))

    def truth(self, test: ir.Test) -> bool | None:
        """Whether the test holds, where that is known."""
        if isinstance(test.a, ir.Const) and isinstance(test.b, ir.Const):
            return _holds(test.cc, test.a.word, test.b.word, self.w)
        # Any word compares with itself as zero does.
        return _holds(test.cc, 0, 0, self.w) if test.a is test.b else None

    def resolve(self, node: ir.Node) -> ir.Block:
        """The statement, or the statements that are left of it where its test is known."""
        if isinstance(node, ir.If):
            return self.resolve_if(node)
        if isinstance(node, ir.While):
            return self.resolve_while(node)
        return () if isinstance(node, ir.Check) and self.truth(node.test) is True else (node,)

    def resolve_if(self, node: ir.If) -> ir.Block:
        before, after = self.truth(node.test), self.truth(node.post)
        taken = after if before is None else before
        if taken is None or after is (not taken):
            return (node,)
        promise = node.test if before is None else node.post
        checks = () if None not in (before, after) else (_promise(promise, taken, node.span),)
        branch = node.then if taken else node.orelse
        return (*checks, *branch) if before is None else (*branch, *checks)

    def resolve_while(self, node: ir.While) -> ir.Block:
        after = self.truth(node.post)
        if self.truth(node.test) is not False or after is True:
            return (node,)
        return () if after is False else (_promise(node.post, False, node.span),)


def _promise(test: ir.Test, holds: bool, span: Span | None) -> ir.Check:
    message = "the condition at the other end of this statement says otherwise"
    return ir.Check(test if holds else test.negated(), "RG0803", message, span)


def _fold_op(op: ir.Op, w: Format) -> Iterable[ir.Op]:
    word = constant_value(op, w)
    if word is None:
        return (op,)
    if word == 0:
        # Every update by the word zero changes nothing.
        return ()
    if op.opcode.entry.name in ("mov", "fmov", "lmov"):
        return (op,)
    return (op._replace(opcode=move_for(op.opcode), a=ir.Const(word), b=None, imm=0),)


def _holds(cc: str, a: int, b: int, w: Format) -> bool:
    predicate, _ = CONDITIONS[f".{cc}"]
    assert predicate is not None
    return bool(evaluate(predicate, w, {"a": a, "b": b}))
