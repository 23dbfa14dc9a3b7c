"""Loop nesting forest of a flow graph, and how translated code executes each loop.

The loop of a header h is the strongly connected component of h in the graph without the headers of the loops around it
(F. Bourdoncle, Efficient chaotic iteration strategies with widenings, FMPA 1993). Headers are the targets of back edges of a
depth-first walk, in the order of that walk, so the first node of a component is its header. In this graph a call is followed by its
return, so the loops of a procedure are not those of its callers.

Numbers are those of one pass: each instruction of the loop is counted once, without inner loops and called procedures. A pass of a loop with
branches executes some of these instructions. A skipped uncompute block (ghost_uncompute.py) counts with its whole length.

An instruction counts as uncompute if it lies in an uncompute block that the compiler hints at, or if it undoes an
earlier
instruction: it is the inverse, both see the same registers, and no jump leads from between the two to other places.
Trap: words of memory are taken to stay the same between the two. The numbers are for reading, and no code relies on them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from retrograd.isa.encoding import Instruction, inverse
from retrograd.isa.expr import const
from retrograd.isa.program import Program
from retrograd.simulator.engines.llvm.builder import VectorUnit
from retrograd.simulator.engines.llvm.instructions import MODES, stack_accesses, step_of, with_locations
from retrograd.simulator.engines.llvm.jit import jit_compiler
from retrograd.simulator.engines.tiering import level_for
from retrograd.simulator.engines.translator.flow import (
    Flow,
    Mirror,
    Node,
    Variant,
    can_be_undone,
    flow_of,
    registers,
    written,
)
from retrograd.simulator.engines.translator.loops import LoopFinding, find_vector_loops
from retrograd.simulator.engines.translator.translate import translate
from retrograd.simulator.engines.translator.vector_loops import RowFinding, row_findings

#: kinds of checks: results and operands that must fit; addresses; conditions of branches; operands outside a domain
KINDS = ("overflow", "address", "branch", "domain")

#: instructions that call a procedure
CALLS = ("call", "uncall")
#: instructions that jump if no jump ends at them; `swapbr` is then the return of a procedure
JUMPS = ("goto", "swapbr", *CALLS)


@dataclass
class LoopSummary:
    """A loop of the flow graph. Addresses are those of the program, `source` that of the branch which closes the loop."""

    header: Node
    nodes: set[Node]
    depth: int
    inner: list[LoopSummary] = field(default_factory=list)
    source: int = 0
    first: int = 0
    last: int = 0
    instructions: int = 0
    executed_uncompute: int = 0
    skipped_uncompute: int = 0
    #: why uncompute is executed; empty where none is
    uncompute_reason: str = ""
    #: kind of check -> checks of a pass in scalar code
    checks: dict[str, int] = field(default_factory=dict)
    #: passes that run at once, 1 in scalar code; checks that are left in each lane; why the loop stays scalar
    lanes: int = 1
    lane_checks: int | None = None
    scalar_reason: str = ""
    #: a second thread executes rows; why it does not, None for an innermost loop
    shares_rows: bool = False
    row_reason: str | None = None
    #: machine instructions that read or write the stack (llvm/stack_accesses.py), those of vector code included; None on a processor whose
    #: stack frames are not known
    spills: int | None = None


def loop_summaries(program: Program, variant: Variant, unit: VectorUnit) -> list[LoopSummary]:
    """The loops of a program in the order of its code; a loop stands before the loops inside it."""
    flow = flow_of(program, variant)
    vector = find_vector_loops(flow, variant, unit.lanes) if variant.vector_loops else []
    rows = list(row_findings(flow, [finding.loop for finding in vector if finding.loop is not None]))
    pairs = list(flow.mirrors(program.hints))
    uncompute = _uncompute(flow, pairs)
    loops = nested_loops(flow)
    for loop in loops:
        _count(flow, variant, loop, uncompute)
        loop.uncompute_reason = _uncompute_reason(flow, loop, pairs, vector)
    for loop in loops:
        _vector(loop, vector)
    for loop in loops:
        _rows(loop, rows, vector, unit)
    _count_spills(program, flow, variant, loops)
    return loops


def nested_loops(flow: Flow) -> list[LoopSummary]:
    """The loops of a flow, without their numbers; a loop stands before the loops inside it."""
    predecessors: dict[Node, list[Node]] = {node: [] for node in flow.blocks}
    successors = without_calls(flow)
    for node, followers in successors.items():
        for to in followers:
            predecessors[to].append(node)
    loops: list[LoopSummary] = []
    for header in _headers(successors, next(iter(flow.blocks))):
        # Loops around the header were found before it, the innermost last.
        around = next((loop for loop in reversed(loops) if header in loop.nodes), None)
        known = flow.blocks.keys() if around is None else around.nodes - {around.header}
        before = _reach(header, predecessors, known)
        nodes = _reach(header, successors, before)
        closing = [node for node in predecessors[header] if node in nodes]
        if not closing:
            continue
        found = LoopSummary(header, nodes, 0 if around is None else around.depth + 1)
        found.source = _address(flow, max(closing)[0])
        if around is not None:
            around.inner.append(found)
        loops.append(found)
    return loops


def _headers(edges: Mapping[Node, list[Node]], origin: Node) -> list[Node]:
    """The targets of back edges of a depth-first walk, in the order of the walk."""
    order, active, found = {origin: None}, {origin}, set()
    stack = [(origin, iter(edges[origin]))]
    while stack:
        node, rest = stack[-1]
        to = next(rest, None)
        if to is None:
            active.discard(node)
            stack.pop()
        elif to in active:
            found.add(to)
        elif to not in order:
            order[to] = None
            active.add(to)
            stack.append((to, iter(edges[to])))
    return [node for node in order if node in found]


def without_calls(flow: Flow) -> dict[Node, list[Node]]:
    """The edges of the graph; a call is followed by its return. A path from one call through the procedure to another is no loop."""
    calls = [node for node in flow.blocks if not node[1] and flow.code[node[0]].opcode.name in CALLS]
    returns = {(flow.leaves(at), True): (at, False) for at, _ in calls}
    edges = {}
    for node, followers in flow.successors.items():
        # The flow does not evaluate conditions, and has an edge behind each jump.
        jumps = not node[1] and flow.blocks[node] and flow.code[node[0]].opcode.name in JUMPS
        edges[node] = [to for to in followers if to not in returns and (to[1] or not jumps)]
    for returned, call in returns.items():
        if returned in edges:
            edges[call].append(returned)
    return edges


def _reach(origin: Node, edges: Mapping[Node, list[Node]], known: Collection[Node]) -> set[Node]:
    """The nodes of `known` that are reached from the origin through nodes of `known`."""
    seen, stack = {origin}, [origin]
    while stack:
        for to in edges[stack.pop()]:
            if to in known and to not in seen:
                seen.add(to)
                stack.append(to)
    return seen


def _address(flow: Flow, at: int) -> int:
    """The address in the program of an instruction in either direction."""
    return at if flow.side(at) == 0 else flow.mirror(at)


def _uncompute(flow: Flow, pairs: Collection[Mirror]) -> set[int]:
    """The addresses of uncompute instructions, in both directions."""
    blocks = {at for pair in pairs for at in range(pair.undo, pair.after)}
    return blocks | _undoing(flow, range(flow.length)) | _undoing(flow, range(flow.length, 2 * flow.length))


def _uncompute_reason(
    flow: Flow, loop: LoopSummary, pairs: Collection[Mirror], findings: Collection[LoopFinding]
) -> str:
    """Why the uncompute instructions of a loop are executed."""
    if not loop.executed_uncompute:
        return ""
    if flow.hints is None:
        return "an earlier run had to execute an uncompute block of the program"
    if not loop.inner and any((finding.address, True) in loop.nodes for finding in findings):
        return "it lies in a loop without branches"
    inside = {at for node in loop.nodes for at in flow.blocks[node]}
    reasons = [flow.refusal(pair) for pair in pairs if pair not in flow.ghosts and pair.undo in inside]
    return next(
        filter(None, reasons), "no block of it is the inverse of a block before, around a body that keeps its words"
    )


def _undoing(flow: Flow, side: range) -> set[int]:
    """The addresses of instructions that undo an earlier one, in the code of one direction."""
    #: register -> number of the write that made its word; an instruction that undoes a write restores the number
    numbers: dict[int, int] = {}
    #: bit k is set between the ends of the k-th jump
    crossed = 0
    jumps = {frozenset((at, to)) for at in side if flow.branches(at) for to in flow.jumps(at) if at != to}
    ends: dict[int, int] = {}
    for k, jump in enumerate(jumps):
        for at in jump:
            ends[at] = ends.get(at, 0) ^ 1 << k
    #: (instruction that would undo it, numbers of its registers behind it, jumps around it) -> the numbers before it
    open_: dict[tuple[Instruction, tuple[int, ...], int], list[dict[int, int]]] = {}
    out = set()
    for at in side:
        i = flow.code[at]
        if flow.branches(at):
            crossed ^= ends.get(at, 0)
            numbers |= dict.fromkeys(numbers if i.opcode.name in CALLS else written(i), -1 - at)
            continue
        earlier = open_.get((i, tuple(numbers.get(r, 0) for r in registers(i)), crossed))
        if earlier:
            numbers |= earlier.pop()
            out.add(at)
            continue
        before = {r: numbers.get(r, 0) for r in written(i)}
        numbers |= dict.fromkeys(before, at + 1)
        if can_be_undone(i):
            key = inverse(i, flow.program.table), tuple(numbers.get(r, 0) for r in registers(i)), crossed
            open_.setdefault(key, []).append(before)
    return out


def _count(flow: Flow, variant: Variant, loop: LoopSummary, uncompute: Collection[int]) -> None:
    own = loop.nodes.difference(*(inner.nodes for inner in loop.inner))
    executed = {at for node in own for at in flow.blocks[node]}
    skipped = [pair for node in own if not flow.blocks[node] and (pair := flow.skipped(node))]
    everything = {at for node in loop.nodes for at in flow.blocks[node]}
    everything |= {at for pair in skipped for at in range(pair.undo, pair.after)}
    addresses = [_address(flow, at) for at in everything]
    loop.first, loop.last = min(addresses), max(addresses)
    loop.executed_uncompute = len(executed & set(uncompute))
    loop.skipped_uncompute = sum(pair.after - pair.undo for pair in skipped)
    loop.instructions = len(executed) + loop.skipped_uncompute
    loop.checks = dict.fromkeys(KINDS, 0)
    modes = [m for m in MODES if variant.checks and (m == "always" or getattr(variant, m))]
    for at in executed:
        found = step_of(flow.code[at], flow.program.format)
        loop.checks["address"] += found.memory
        for mode in modes:
            tested = sum(guard is not const(1) for guard in found.guards[mode])
            kind = "overflow" if mode == "overflow" else "branch" if flow.branches(at) else "domain"
            loop.checks[kind] += tested


def _count_spills(program: Program, flow: Flow, variant: Variant, loops: list[LoopSummary]) -> None:
    """Compile the program, and count the accesses of the stack by loops."""
    if not loops:
        return
    jit = jit_compiler()
    module = jit.module()
    translate(program, variant, module)
    assembly = jit.assembly(with_locations(module, "translated"), level_for(len(program.code)))
    found = stack_accesses(assembly, jit.triple.partition("-")[0])
    if found is None:
        return
    for loop in loops:
        own = loop.nodes.difference(*(inner.nodes for inner in loop.inner))
        loop.spills = sum(found[at] for at in {at for node in own for at in (node[0], *flow.blocks[node])})


def _vector(loop: LoopSummary, findings: list[LoopFinding]) -> None:
    if loop.inner:
        loop.scalar_reason = "it holds another loop"
        return
    finding = next((f for f in findings if (f.address, True) in loop.nodes), None)
    if finding is None:
        skips = loop.skipped_uncompute
        loop.scalar_reason = "it skips an uncompute block" if skips else "it is not one straight line"
    elif finding.loop is None:
        loop.scalar_reason = finding.reason
    else:
        loop.lanes, loop.lane_checks = finding.loop.lanes, len(finding.loop.guards)


def _rows(loop: LoopSummary, rows: list[RowFinding], vector: list[LoopFinding], unit: VectorUnit) -> None:
    if not loop.inner:
        return
    inner = loop.inner[0]
    found = next((f for f in vector if f.loop is not None and (f.address, True) in inner.nodes), None)
    if len(loop.inner) > 1:
        loop.row_reason = f"it holds {len(loop.inner)} loops"
    elif found is None or found.loop is None or inner.inner:
        loop.row_reason = "its inner loop is not in the vector unit"
    elif not found.loop.additions:
        loop.row_reason = "passes of its inner loop do not only add, to words that no pass reads"
    else:
        finding = next((f for f in rows if f.header in loop.nodes and f.header not in inner.nodes), None)
        if finding is None:
            loop.row_reason = "it is not one straight line around its inner loop"
        elif finding.loop is None:
            loop.row_reason = finding.reason
        elif not (unit.masks and unit.threads):
            loop.row_reason = "this machine has no second core, or no vector unit with masks"
        else:
            loop.shares_rows, loop.row_reason = True, ""
