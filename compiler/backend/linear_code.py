"""Linear code: structured control becomes paired branches, in one list of steps that still names virtual registers.

    if t: A else: B, p    →   goto.¬t 1;  A;  goto 2;  from 1;  B;  from.p 2
    while t: A, p         →   goto.¬t 1;  from.p 2;  A;  goto.t 2;  from.¬p 1
    check t               →   assert.t                              check x = 0   →   assertz x        of integers

A number names the pair that two branches form.
Correct in both directions because the list of an inverse statement is the inverse of the list. Later stages walk the list once;
it holds the order and the loop depth that they need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import Literal, NamedTuple

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis, Memories, Memory, union
from retrograd.compiler.ir.instruction_selection import commutes, facts
from retrograd.compiler.ir.traversal import bodies, walk
from retrograd.isa.diagnostics import Span
from retrograd.isa.encoding import IMMEDIATE_MAX, IMMEDIATE_MIN
from retrograd.isa.entries import Opcode
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

_ADD, _SUB, _ASSERT = TABLE["mov.add"], TABLE["mov.sub"], TABLE["assertz"]


#: An `assertz` would discard the cotangents of other variables.
_WITHOUT_COTANGENT = (ir.Kind.INT, ir.Kind.UINT, ir.Kind.BOOL, ir.Kind.ADDRESS)


class Branch(NamedTuple):
    """One end of a pair. `carried`: the operands that either end tests, in registers on the path between them."""

    kind: Literal["goto", "from"]
    test: ir.Test | None
    pair: int
    carried: tuple[ir.Operand, ...]


class Mark(NamedTuple):
    """The place where the compute block of a pair (0) begins or (1) ends, or its uncompute block (2) begins or (3) ends. No instruction."""

    pair: int
    place: int


class Step(NamedTuple):
    """The next item to emit, and the statement that it serves. `depth`: how many loops are around it.

    `undone`: it stands in an uncompute block, so its instructions are the inverses of those of its inverse, last first.
    """

    item: ir.Op | ir.Local | ir.Delocal | ir.Call | Branch | ir.External | Mark
    origin: ir.Node
    span: Span | None
    depth: int
    undone: bool = False


class FixedRegions:
    """Regions with addresses for array parameters: of a parameter that is the same region in every call."""

    def __init__(self, module: ir.Module) -> None:
        self._given: dict[ir.Region, set[Memory]] = {}
        self._known: dict[ir.Region, ir.Region | None] = {}
        for call in (node for body in bodies(module) for node in walk(body) if isinstance(node, ir.Call)):
            procedure = module.procedures.get(call.procedure)
            for region, given in zip(procedure.regions if procedure else (), call.regions, strict=False):
                self._given.setdefault(region, set()).add(given)

    def one(self, region: Memory) -> ir.Region | None:
        """The region with an address that this is in every run; None if there is no such region."""
        if region is None or region.address is not None:
            return region
        if region not in self._known:
            # A recursive call gives its own parameter.
            given = self._given.get(region, set()) - {region}
            self._known[region] = None
            self._known[region] = self.one(given.pop()) if len(given) == 1 else None
        return self._known[region]

    def of(self, regions: Memories) -> Memories:
        return frozenset(map(self.one, regions)) if regions else regions


def linearize(
    block: ir.Block, w: Format, accesses: AccessAnalysis, fixed: FixedRegions, span: Span | None = None
) -> list[Step]:
    """The block as a list of steps, its constants folded into the instructions where those take them."""
    lowering = _Lowering(w, accesses, fixed)
    lowering.block(block, span, 0)
    return lowering.steps


def _last_line(computed: Sequence[Step], body: Sequence[Step]) -> Span | None:
    """The place of the last of the statements that share a temporary, of which the undoing is a part: no line begins again there.

    None if the temporary serves one line, or its undoing can trap, which is reported at its own place.
    """
    lines = {step.span and step.span[:2] for step in computed}
    last = body[-1].span if body else None
    checked = any(isinstance(step.origin, ir.Local | ir.Delocal) and step.origin.checked for step in computed)
    if last is None or len(lines) != 1 or checked:
        return None
    [line] = lines
    return last if line is not None and line[0] == last.file and line[1] < last.line else None


class _Lowering:
    def __init__(self, w: Format, accesses: AccessAnalysis, fixed: FixedRegions) -> None:
        self.w, self.accesses, self.fixed = w, accesses, fixed
        self.steps: list[Step] = []
        self.pairs = 0

    def block(self, nodes: Iterable[ir.Node], span: Span | None, depth: int) -> None:
        for node in nodes:
            self.node(node, node.span or span, depth)

    def node(self, node: ir.Node, span: Span | None, depth: int) -> None:
        add = self.steps.append
        match node:
            case ir.Op():
                add(Step(fold(node, self.w), node, span, depth))
            case ir.Local(var, checked):
                add(Step(node, node, span, depth))
                if checked:
                    add(Step(ir.Op(_ASSERT, var), node, span, depth))
            case ir.Delocal(var, checked):
                if checked:
                    add(Step(ir.Op(_ASSERT, var), node, span, depth))
                add(Step(node, node, span, depth))
            case ir.Call():
                add(Step(node, node, span, depth))
            case ir.External():
                # The mark is an instruction that does nothing, so that every machine has a place to stop at.
                add(Step(node, node, span, depth))
            case ir.Check(of=of) if of:
                pass
            case ir.Check(ir.Test("eq", ir.Var() as var, ir.ZERO)) if var.kind in _WITHOUT_COTANGENT:
                add(Step(ir.Op(_ASSERT, var), node, span, depth))
            case ir.Check(test):
                add(Step(ir.Op(TABLE[f"assert.{test.cc}"], None, test.a, test.b), node, span, depth))
            case ir.Within():
                self._within(node, span, depth)
            case ir.If():
                self._if(node, span, depth)
            case ir.While():
                self._while(node, span, depth)
            case ir.For():
                self._for(node, span, depth)

    def _within(self, node: ir.Within, span: Span | None, depth: int) -> None:
        """compute; body; compute⁻¹, with marks around the runs of statements that engines may skip."""
        runs: list[tuple[int, list[Step]]] = []
        first = len(self.steps)
        for kept, run in groupby(zip(self._kept(node), node.compute, strict=True), lambda pair: pair[0]):
            self.pairs += kept
            pair = self.pairs if kept else 0
            self._mark(pair, 0, node, span, depth)
            begin = len(self.steps)
            self.block((part for _, part in run), span, depth)
            runs.append((pair, self.steps[begin:]))
            self._mark(pair, 1, node, span, depth)
        begin = len(self.steps)
        self.block(node.body, span, depth)
        computed, body = (
            [step for step in steps if not isinstance(step.item, Mark)]
            for steps in (self.steps[first:begin], self.steps[begin:])
        )
        place = None if node.name else _last_line(computed, body)
        for pair, steps in reversed(runs):
            self._mark(pair, 2, node, span, depth)
            self._uncompute(steps, place)
            self._mark(pair, 3, node, span, depth)

    def _kept(self, node: ir.Within) -> list[bool]:
        """For each statement of a compute block: whether the code up to its inverse keeps its words, so that engines may skip the inverse."""
        between, out = union(map(self.accesses.of, node.body)), list[bool]()
        stored = self.fixed.of(between.stores)
        for part in reversed(node.compute):
            access = self.accesses.of(part)
            steady = not between.clobbers(access)
            # What uses the free part of the stack may call a procedure.
            kept = steady and not access.stack
            if access.loads:
                # Words that are stored are also loaded.
                loads, stores = self.fixed.of(access.loads), self.fixed.of(access.stores)
                steady = steady and stored.isdisjoint(loads)
                # A region that is known only in a run may be any.
                kept = kept and steady and None not in stores and not (stored and None in loads | stored)
                if not kept:
                    # Words that a kept statement has stored are put back; the inverse of another one changes them
                    # once more.
                    stored |= stores
            out.append(kept)
            if not steady:
                between |= access
        return out[::-1]

    def _mark(self, pair: int, place: int, node: ir.Within, span: Span | None, depth: int) -> None:
        if pair:
            self.steps.append(Step(Mark(pair, place), node, span, depth))

    def _uncompute(self, steps: list[Step], span: Span | None) -> None:
        """The inverse of the steps of a compute block, instruction by instruction, which engines recognise.

        `span`: the place of the inverse in the source; None for those of the steps themselves.
        """
        pairs: dict[int, int] = {}
        for step in reversed(steps):
            item = step.item
            if isinstance(item, Branch | Mark) and item.pair not in pairs:
                self.pairs += 1
                pairs[item.pair] = self.pairs
            if isinstance(item, Mark):
                self.steps.append(step._replace(item=Mark(pairs[item.pair], 3 - item.place)))
                continue
            if isinstance(item, Branch):
                kind: Literal["goto", "from"] = "from" if item.kind == "goto" else "goto"
                item = item._replace(kind=kind, pair=pairs[item.pair])
            else:
                item = ir.invert_node(item)  # type: ignore[assignment]
            origin, undone = ir.invert_node(step.origin), not step.undone
            self.steps.append(Step(item, origin, span or step.span, step.depth, undone))

    def pair(self, first: ir.Test | None, second: ir.Test | None) -> tuple[int, tuple[ir.Operand, ...]]:
        """A new pair and its carried operands."""
        self.pairs += 1
        carried: dict[ir.Operand, None] = {}
        for test in (first, second):
            if test is not None:
                carried[test.a] = carried[test.b] = None
        return self.pairs, tuple(carried)

    def _if(self, node: ir.If, span: Span | None, depth: int) -> None:
        add = self.steps.append
        if node.then and node.orelse:
            over, end = self.pair(node.test, None), self.pair(node.post, None)
            add(Step(Branch("goto", node.test.negated(), *over), node, span, depth))
            self.block(node.then, span, depth)
            add(Step(Branch("goto", None, *end), node, span, depth))
            add(Step(Branch("from", None, *over), node, span, depth))
            self.block(node.orelse, span, depth)
            add(Step(Branch("from", node.post, *end), node, span, depth))
            return
        # With one side empty the jump skips the other side, and joins it.
        test, post, side = node.test, node.post, node.orelse
        if not side:
            test, post, side = test.negated(), post.negated(), node.then
        over = self.pair(test, post)
        add(Step(Branch("goto", test, *over), node, span, depth))
        self.block(side, span, depth)
        add(Step(Branch("from", post, *over), node, span, depth))

    def _while(self, node: ir.While, span: Span | None, depth: int) -> None:
        add = self.steps.append
        over, again = self.pair(node.test, node.post), self.pair(node.post, node.test)
        add(Step(Branch("goto", node.test.negated(), *over), node, span, depth))
        add(Step(Branch("from", node.post, *again), node, span, depth + 1))
        self.block(node.body, span, depth + 1)
        add(Step(Branch("goto", node.test, *again), node, span, depth + 1))
        add(Step(Branch("from", node.post.negated(), *over), node, span, depth))

    def passes(self, node: ir.For) -> int | None:
        """How many passes the loop makes, where that is known."""
        if not isinstance(node.start, ir.Const) or not isinstance(node.stop, ir.Const):
            return 0 if node.start is node.stop else None
        passes, rest = divmod(self.w.signed(node.stop.word - node.start.word), node.step)
        return passes if passes >= 0 and not rest else None

    def _for(self, node: ir.For, span: Span | None, depth: int) -> None:
        """With first = start and last = stop (backward: exchanged), around var:

        goto.(first = last) 1;  var += first;  from.(var ≠ first) 2;  A;  goto.(var ≠ last) 2;  var −= last;  from.(first = last) 1

        where A ends in var += step, or backward begins with var −= step. With one pass at least there is no pair 1.
        """
        var, passes = node.var, self.passes(node)
        if passes == 0:
            return
        first, last = (node.stop, node.start) if node.backward else (node.start, node.stop)
        loops = passes != 1
        again = self.pair(ir.Test("ne", var, first), ir.Test("ne", var, last))
        empty = None if node.some or passes is not None else ir.Test("eq", first, last)
        over = self.pair(empty, None)

        def branch(
            kind: Literal["goto", "from"], test: ir.Test, pair: tuple[int, tuple[ir.Operand, ...]], at: int
        ) -> None:
            self.steps.append(Step(Branch(kind, test, *pair), node, span, at))

        def update(opcode: Opcode, by: ir.Operand, at: int) -> None:
            if by == ir.ZERO:
                return
            self.steps.append(Step(fold(ir.Op(opcode, var, by), self.w), node, span, at))

        inside = depth + 1 if loops else depth
        step = ir.Const(node.step & self.w.mask)
        if empty is not None:
            branch("goto", empty, over, depth)
        self.steps.append(Step(ir.Local(var), node, span, depth))
        update(_ADD, first, depth)
        if loops:
            branch("from", ir.Test("ne", var, first), again, inside)
        if node.backward:
            update(_SUB, step, inside)
        self.block(node.body, span, inside)
        if not node.backward:
            update(_ADD, step, inside)
        if loops:
            branch("goto", ir.Test("ne", var, last), again, inside)
        update(_SUB, last, depth)
        self.steps.append(Step(ir.Delocal(var), node, span, depth))
        if empty is not None:
            branch("from", empty, over, depth)


def callees(steps: Iterable[Step]) -> dict[str, None]:
    """The procedures that the steps call, in order of first appearance."""
    return {step.item.procedure: None for step in steps if isinstance(step.item, ir.Call)}


# ---------------------------------------------------------------- constants in instructions


class _Shape(NamedTuple):
    """The facts about an opcode that the folding of constants needs."""

    #: the opcode with a constant in place of the operand `last`
    immediate: Opcode | None
    last: Literal["a", "b"]
    commutes: bool
    #: pairs of places that may not hold one variable
    distinct: tuple[tuple[str, str], ...]


@cache
def _shape(opcode: Opcode) -> _Shape:
    last: Literal["a", "b"] = "b" if "rb" in opcode.fields else "a"
    immediate = TABLE.immediate_form(opcode)
    exchangeable = immediate is not None and last == "b" and commutes(opcode)
    distinct = tuple((x[1], y[1]) for x, y in opcode.distinct)
    return _Shape(immediate, last, exchangeable, distinct)


def immediate_of(word: int, w: Format) -> int | None:
    """The constant of an instruction that means this word, or None if 32 bits do not hold it."""
    value = w.signed(word)
    return value if IMMEDIATE_MIN <= value <= IMMEDIATE_MAX else None


def fold(op: ir.Op, w: Format) -> ir.Op:
    """The same instruction with a constant where it can stand in the encoding.

    `mov.add x, 5` becomes `imm.add x, 5`, `ld.add x, [5 + 2]` becomes `ld.add x, [0 + 7]`.
    """
    opcode = op.opcode
    shape = _shape(opcode)
    for p in facts(opcode).written:
        if not isinstance(getattr(op, p), ir.Var):
            raise AssertionError(f"{opcode.name} writes {getattr(op, p)!r}, which is no variable")
    for x, y in shape.distinct:
        if getattr(op, x) is getattr(op, y):
            raise AssertionError(f"{opcode.name} reads {getattr(op, x)!r}, which it writes")
    if w.width <= 32 and op.imm:
        op = op._replace(imm=w.signed(op.imm))
    if facts(opcode).memory and isinstance(op.a, ir.Const):
        address = immediate_of(op.a.word + op.imm, w)
        return op if address is None else op._replace(a=ir.ZERO, imm=address)
    if shape.immediate is None:
        return op
    if shape.commutes and isinstance(op.a, ir.Const) and not isinstance(op.b, ir.Const):
        op = op._replace(a=op.b, b=op.a)
    constant = op.b if shape.last == "b" else op.a
    if isinstance(constant, ir.Const):
        value = immediate_of(constant.word, w)
        if value is not None:
            op = op._replace(opcode=shape.immediate, imm=value)
            return op._replace(b=None) if shape.last == "b" else op._replace(a=None)
    return op
