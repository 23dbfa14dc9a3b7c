"""Parallelisation of nested loops: the rows of an outer loop around a vector loop, on two threads.

A row is a pass of an outer loop that is one straight line except for one vector loop (loops.py). Rows are taken in parallel if their
passes only add, and read no word that any row writes. From row to row each register advances by a constant, which may depend on
the number of passes T:

    r' = r + c + k·T

so the registers of every row are known before the rows run. T is counted in the first row by the loop's own branches; it is the same in every
row, since registers on which those branches depend do not change.

The code that shares the rows out is in row_sharing.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from retrograd.isa.expr import ONE, ZERO, Expr, const, inputs, place
from retrograd.simulator.engines.llvm.instructions import step
from retrograd.simulator.engines.translator.flow import Flow, Node
from retrograd.simulator.engines.translator.loops import VectorLoop
from retrograd.simulator.engines.translator.symbolic_pass import Refusal, SymbolicPass, register

#: the input that stands for the number of passes of a row
PASSES = "T"


@dataclass
class ParallelLoop:
    """A loop whose rows run on two threads."""

    inner: VectorLoop
    header: Node
    before: list[Node]
    entry: Node
    after: list[Node]
    closing: Node
    #: registers at the beginning of the vector loop, over those at the beginning of the row
    inside: dict[int, Expr] = field(default_factory=dict)
    #: register -> the sum of its changes in a row
    deltas: dict[int, Expr] = field(default_factory=dict)
    #: must hold in the first row; BR behind the closing branch, and the guards of the landing, in each row
    entered: list[Expr] = field(default_factory=list)
    jump: int = 0
    after_closing: Expr = ZERO
    landing: list[Expr] = field(default_factory=list)

    @property
    def start(self) -> Node:
        """The node at which a row begins; of a single row, the passes."""
        return self.before[0] if self.before else self.inner.start


@dataclass(frozen=True)
class RowFinding:
    """A candidate: the outer loop as its rows are shared, or the reason for which one thread executes them all."""

    header: Node
    reason: str
    loop: ParallelLoop | None


def find_parallel_loops(flow: Flow, loops: list[VectorLoop]) -> Iterator[ParallelLoop]:
    """The loops around these vector loops whose rows may run in parallel."""
    return (finding.loop for finding in row_findings(flow, loops) if finding.loop is not None)


def row_findings(flow: Flow, loops: list[VectorLoop]) -> Iterator[RowFinding]:
    """The loops that are one straight line around one of these vector loops, whose passes only add."""
    for inner in loops:
        for header in flow.blocks:
            found = _around(flow, inner, header)
            if found is not None:
                try:
                    _analyse(flow, found)
                except Refusal as refusal:
                    yield RowFinding(header, str(refusal), None)
                else:
                    yield RowFinding(header, "", found)


def _straight(flow: Flow, node: Node | None) -> tuple[list[Node], Node | None]:
    """(straight blocks from the node on, the branch behind them)"""
    found: list[Node] = []
    while node is not None and not flow.branches(node[0]):
        run = flow.blocks[node]
        # The block of a node whose uncompute block is skipped is empty.
        if not run or flow.code[run[-1]].opcode.halts:
            return found, None
        found.append(node)
        node = flow.after(run[-1])
    return found, node


def _around(flow: Flow, inner: VectorLoop, header: Node) -> ParallelLoop | None:
    at, landed = header
    if not landed or not flow.branches(at) or header == inner.header or not inner.additions:
        return None
    before, entry = _straight(flow, flow.after(at))
    after, closing = _straight(flow, inner.leave)
    if not before or entry != (inner.header[0], False) or closing is None or header not in flow.successors[closing]:
        return None
    if any(flow.code[node[0]].opcode.turns for node in (header, closing)):
        return None
    return ParallelLoop(inner, header, before, entry, after, closing)


def single_row(inner: VectorLoop) -> ParallelLoop | None:
    """A vector loop as a row by itself, if its passes only add, and their words are neighbours."""
    if not inner.additions or any(abs(stride) != 1 for stride in inner.strides.values()):
        return None
    found = ParallelLoop(inner, inner.header, [], inner.header, [], inner.closing)
    found.inside = {r: place(register(r)) for r in sorted(_registers(inner))}
    return found


def _registers(inner: VectorLoop) -> set[int]:
    """The registers that the passes of a vector loop read."""
    registers = {*inner.constants, *inner.inductions, *(r for base in inner.strides for r, _ in base.terms)}
    trees = [*inner.additions.values(), inner.after_closing, *inner.landing]
    return registers | {int(name[1:]) for name in inputs(*trees) | inner.bounded if name.startswith("r")}


def _analyse(flow: Flow, loop: ParallelLoop) -> None:
    inner, forms, w = loop.inner, loop.inner.forms, flow.program.format
    nodes = (*loop.before, *loop.after)
    addresses = [at for node in nodes for at in flow.blocks[node]]
    branches = (loop.header[0], loop.entry[0], loop.closing[0])
    own = {*addresses, *branches, *(at for node in inner.body for at in flow.blocks[node])}
    if any(own & {ghost.start, ghost.end, ghost.undo, ghost.after} for ghost in flow.ghosts):
        raise Refusal("a row begins or ends a compute block")
    steps = {at: step(flow.code[at].opcode, w, False, False) for at in (*addresses, *branches)}
    if any(steps[at].memory or any(steps[at].guards.values()) or steps[at].erases for at in addresses):
        raise Refusal("a row does more than to run its loop")
    if any(abs(stride) != 1 for stride in inner.strides.values()):
        raise Refusal("words lie apart")
    row = SymbolicPass(flow, steps, forms, {})
    for node in loop.before:
        for at in flow.blocks[node]:
            row.execute(at, ())
    loop.inside = {r: row.word(r) for r in sorted(_registers(inner))}
    came, guards = row.branch(loop.entry[0], 0)
    loop.entered = [came.eq(0), *guards]
    passes = place(PASSES)
    for r, by in inner.inductions.items():
        row.registers[r] = forms.tree(forms.combined(row.word(r), passes, by))
    for node in loop.after:
        for at in flow.blocks[node]:
            row.execute(at, ())
    loop.jump = loop.header[0] - flow.leaves(loop.closing[0])
    loop.after_closing, guards = row.branch(loop.closing[0], 0)
    if any(guard is not const(1) for guard in guards):
        raise Refusal("the closing branch has a guard")
    arrived, more = row.branch(loop.header[0], loop.jump)
    loop.landing = [arrived.eq(0), *more]
    loop.deltas = {r: forms.sum(tree, place(register(r)), -1) for r, tree in sorted(row.registers.items())}
    changed = {register(r) for r, delta in loop.deltas.items() if delta is not const(0)}
    for r, delta in loop.deltas.items():
        linear = all(atom is ONE or atom.op == "input" for atom in forms.form(delta))
        if not linear or changed & delta.inputs or (r in inner.constants and delta is not const(0)):
            raise Refusal("a register changes irregularly from row to row")
