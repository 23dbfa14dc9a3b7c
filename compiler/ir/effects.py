"""Read and write effects of statements, and interference.

    x; y = y; x   if neither writes a variable or memory that the other reads or writes, and not both use the free stack

Sets may be larger than the truth, never smaller: a variable that a `Within` changes and restores counts as written.
Source: Bernstein's conditions (A. J. Bernstein, Analysis of programs for parallel processing, 1966).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.instruction_selection import facts, operand
from retrograd.compiler.ir.traversal import bodies, operands_of, walk
from retrograd.isa.diagnostics import Span
from retrograd.isa.table import TABLE

#: a stretch of memory by its name; None is any memory
Memory = ir.Region | None
Vars = frozenset[ir.Var]
Memories = frozenset[Memory]

NO_VARS: Vars = frozenset()
NO_MEMORY: Memories = frozenset()
ANYWHERE: Memories = frozenset({None})


class AccessSets(NamedTuple):
    """The variables and memory that a statement reads and writes. `writes` counts as read, too; its own locals are left out."""

    reads: Vars = NO_VARS
    writes: Vars = NO_VARS
    loads: Memories = NO_MEMORY
    stores: Memories = NO_MEMORY
    #: needs the stack's free part, M[SP …], while it runs, or may
    stack: bool = False
    #: the host may look at any variable: no statement moves across
    barrier: bool = False
    #: holds a Check or a checked Local: a promise of the user's, which must be kept together with its operands
    promises: bool = False

    def __or__(self, other: object) -> AccessSets:
        if not isinstance(other, AccessSets):
            return NotImplemented
        return AccessSets(
            self.reads | other.reads,
            self.writes | other.writes,
            self.loads | other.loads,
            self.stores | other.stores,
            self.stack or other.stack,
            self.barrier or other.barrier,
            self.promises or other.promises,
        )

    def names(self) -> Iterator[str]:
        """The names in the source of the variables and arrays that are written."""
        yield from (var.name for var in self.writes if not var.name.startswith("%"))
        for region in self.stores:
            if region is not None:
                yield from (array.name for array in region.layouts)

    def clobbers(self, other: AccessSets) -> bool:
        """Interference: whether running this first might change a variable or memory that `other` reads or writes."""
        return (
            self.barrier
            or not self.writes.isdisjoint(other.reads)
            or not self.writes.isdisjoint(other.writes)
            or _meet(self.stores, other.loads)
            or _meet(self.stores, other.stores)
        )

    def commutes(self, other: AccessSets) -> bool:
        """Whether this and `other`, one after the other, may be exchanged."""
        if self.clobbers(other) or (self.stack and other.stack):
            return False
        # A statement without writes clobbers nothing.
        return not (other.writes or other.stores or other.barrier) or not other.clobbers(self)


NOTHING = AccessSets()
#: an External: the host reads anything, and changes nothing
LOOK = AccessSets(loads=ANYWHERE, barrier=True, promises=True)


def _meet(x: Memories, y: Memories) -> bool:
    return bool(x) and bool(y) and (None in x or None in y or not x.isdisjoint(y))


def union(accesses: Iterable[AccessSets], own: Iterable[ir.Var] = ()) -> AccessSets:
    """The access sets of all together, without the variables `own`."""
    reads: set[ir.Var] = set()
    writes: set[ir.Var] = set()
    loads: Memories = NO_MEMORY
    stores: Memories = NO_MEMORY
    stack = barrier = promises = False
    for f in accesses:
        reads.update(f.reads)
        writes.update(f.writes)
        # Most statements touch no memory and promise nothing.
        if f.loads:
            loads |= f.loads
            stores |= f.stores
        stack |= f.stack
        barrier |= f.barrier
        promises |= f.promises
    reads.difference_update(own)
    writes.difference_update(own)
    return AccessSets(frozenset(reads), frozenset(writes), loads, stores, stack, barrier, promises)


def _variables(*operands: ir.Operand | None) -> Vars:
    return frozenset(x for x in operands if isinstance(x, ir.Var))


def of_test(test: ir.Test) -> AccessSets:
    return AccessSets(reads=_variables(test.a, test.b))


def of_op(op: ir.Op) -> AccessSets:
    """The access sets of one instruction."""
    f = facts(op.opcode)
    if f.updates and not f.memory:
        # By far the most frequent: d ⊕= f(a, b).
        d, a, b = op.d, op.a, op.b
        reads = frozenset([x for x in (a, b) if x.__class__ is ir.Var])
        return AccessSets(reads, frozenset((d,)))  # type: ignore[arg-type]
    writes = _variables(*(operand(op, p) for p in f.written))
    reads = _variables(*(operand(op, p) for p in f.read))
    if not f.memory:
        # assertz: an instruction that writes nothing is there for its trap.
        return AccessSets(reads, writes, promises=not writes)
    place = frozenset({op.region})
    # The free part of the stack has no region of its own, and is reached through SP or an address from it.
    free = op.a is ir.SP or (f.stores and op.region is None)
    return AccessSets(reads, writes, place, place if f.stores else NO_MEMORY, stack=free)


def bound(block: Iterable[ir.Node]) -> list[ir.Var]:
    """The variables that become live and die at the top of the block."""
    ends = [node for node in block if isinstance(node, ir.Local | ir.Delocal)]
    born = {node.var for node in ends if isinstance(node, ir.Local)}
    return [node.var for node in ends if isinstance(node, ir.Delocal) and node.var in born]


def locals_left(compute: ir.Block) -> tuple[ir.Var, ...]:
    """The variables that become live at the top of a compute block and live on, in order."""
    live: dict[ir.Var, None] = {}
    for node in compute:
        if isinstance(node, ir.Local):
            live[node.var] = None
        elif isinstance(node, ir.Delocal):
            live.pop(node.var, None)
    return tuple(live)


class AccessAnalysis:
    """The access sets of the statements of a module, each computed once.

    A call has the access sets of its procedure, with arguments for parameters; for recursive procedures they are the least
    fixed point. Statements are known by identity, and kept alive for that.
    """

    def __init__(self, module: ir.Module) -> None:
        self._procedures = module.procedures
        self._known: dict[int, tuple[ir.Node, AccessSets]] = {}
        self._summaries: dict[str, AccessSets] = {}
        #: the assumed summaries of procedures that are being summarised, and the names of the procedures whose assumed summary was used
        self._guesses: dict[str, AccessSets] = {}
        self._cyclic: set[str] = set()

    def of(self, node: ir.Node) -> AccessSets:
        """The access sets of a statement."""
        found = self._known.get(id(node))
        if found is not None:
            return found[1]
        access = self._compute(node)
        self._known[id(node)] = (node, access)
        return access

    def block(self, block: ir.Block) -> AccessSets:
        """The access sets of statements in a row, without the variables that live only there."""
        return self.of(block[0]) if len(block) == 1 else union(map(self.of, block), bound(block))

    def _compute(self, node: ir.Node) -> AccessSets:
        match node:
            case ir.Op():
                return of_op(node)
            case ir.Local(var, checked) | ir.Delocal(var, checked):
                return AccessSets(writes=frozenset({var}), promises=checked)
            case ir.Within(compute, body):
                parts = (*map(self.of, compute), *map(self.of, body))
                return union(parts, (*bound(body), *(node.var for node in compute if isinstance(node, ir.Local))))
            case ir.If(test, then, orelse, post):
                return union((of_test(test), of_test(post), self.block(then), self.block(orelse)))
            case ir.While(test, body, post):
                return union((of_test(test), of_test(post), self.block(body)))
            case ir.For(var, start, stop, _, body):
                return union((*map(self.of, body), AccessSets(reads=_variables(start, stop))), (var, *bound(body)))
            case ir.Call():
                return self._of_call(node)
            case ir.Check(test, of=of):
                return AccessSets(reads=_variables(test.a, test.b, *of), promises=True)
            case ir.External(args=args):
                return LOOK._replace(reads=_variables(*args))

    def _of_call(self, call: ir.Call) -> AccessSets:
        procedure = self._procedures[call.procedure]
        summary = self.summary(procedure)
        names: dict[Memory, Memory] = dict(zip(procedure.regions, call.regions, strict=True))
        written = (arg for i, arg in enumerate(call.args) if i in procedure.written)
        read = (arg for i, arg in enumerate(call.args) if i not in procedure.written)
        return AccessSets(
            # SP is read: the link is pushed where it points.
            _variables(*read) | {ir.SP},
            _variables(*written) | (summary.writes & {ir.SP}),
            frozenset(names.get(r, r) for r in summary.loads),
            frozenset(names.get(r, r) for r in summary.stores),
            True,
            summary.barrier,
            summary.promises,
        )

    def summary(self, procedure: ir.Procedure) -> AccessSets:
        """The access sets of a procedure's body, in its own variables and regions."""
        found = self._summaries.get(procedure.name)
        if found is not None:
            return found
        if procedure.name in self._guesses:
            self._cyclic.add(procedure.name)
            return self._guesses[procedure.name]
        # A recursive procedure needs its own summary: iterate from nothing upwards until it is the assumed summary.
        outer, others = self._known, dict(self._summaries)
        self._guesses[procedure.name] = AccessSets(stack=True)
        while True:
            self._known, self._summaries = dict(outer), dict(others)
            self._cyclic.discard(procedure.name)
            summary = self.block(procedure.body) | AccessSets(stack=True)
            if procedure.name not in self._cyclic or summary == self._guesses[procedure.name]:
                break
            self._guesses[procedure.name] = summary
        del self._guesses[procedure.name]
        self._cyclic.discard(procedure.name)
        if self._cyclic:
            # Computed from an assumption about a procedure further out: valid in this round only.
            self._known, self._summaries = outer, others
        else:
            self._summaries[procedure.name] = summary
        return summary


def clobbered_between(node: ir.Within, accesses: AccessAnalysis) -> AccessSets:
    """Interference of the body of a `Within` with its compute block, as `writes` and `stores`.

        clobbered = writes(body);  while a part of compute reads a clobbered variable: clobbered += writes(part)

    All other variables and memory have the same words at each place of compute⁻¹ as at that place of compute, and the same
    words after the `Within` as before.
    """
    body = union(map(accesses.of, node.body))
    clobbered = AccessSets(writes=body.writes, stores=body.stores)
    parts = [accesses.of(inner) for inner in node.compute]
    while True:
        reached = [part for part in parts if clobbered.clobbers(part)]
        if not reached:
            return clobbered
        parts = [part for part in parts if not clobbered.clobbers(part)]
        clobbered = AccessSets(
            writes=clobbered.writes.union(*(part.writes for part in reached)),
            stores=clobbered.stores.union(*(part.stores for part in reached)),
        )


class FrameArray(NamedTuple):
    """An array on the stack from the address `base` on, of `length` words."""

    region: ir.Region
    base: ir.Var
    length: ir.Operand

    def visited(self, body: ir.Block, at: ir.Var, span: Span | None) -> ir.Node:
        """A loop over its words, whose body has the address of a word in the variable `at`."""
        index, step = ir.Var("i", ir.Kind.INT, span), TABLE["mov.add"]
        on = ir.Op(step, at, ir.Const(1), None, 0, span)
        loop = ir.For(index, ir.ZERO, self.length, 1, (*body, on), span=span)
        back = ir.Op(TABLE["mov.sub"], at, self.length, None, 0, span)
        return ir.Within(
            (ir.Local(at, False, span), ir.Op(step, at, self.base, None, 0, span)), (loop, back), None, span
        )


def frame_arrays(compute: ir.Block, clobbered: Memories) -> dict[int, FrameArray]:
    """Of a compute block: the statement that makes room on the stack -> the array there, if the block restores it."""
    accessed = {n.region for n in walk(compute) if isinstance(n, ir.Op) and n.region is not None}
    named = Counter(r.name for r in accessed if r.address is None)
    # Arrays of inlined procedures may have one name, and then it is not known whose base this is.
    regions = {f"{r.name}.base": r for r in accessed if named[r.name] == 1 and r.address is None}
    out: dict[int, FrameArray] = {}
    base: ir.Operand | None = None
    for k, node in enumerate(compute):
        if not isinstance(node, ir.Op):
            continue
        if node.opcode.name == "mov.add" and node.a is ir.SP:
            base = node.d
        elif node.d is ir.SP:
            region = regions.get(base.name) if isinstance(base, ir.Var) else None
            known = region is not None and region not in clobbered and None not in clobbered
            if known and node.opcode.name == "mov.add" and node.a is not None:
                out[k] = FrameArray(cast("ir.Region", region), cast("ir.Var", base), node.a)
            base = None
    return out


class RestoredArrays:
    """The program's own arrays that are zero whenever none of certain `Within` runs.

        within W: t[…] += …; do …        t ∈ of(W): zero before W and after it

    Each access to such an array lies in a `Within` that restores it; of those around an access, the outermost counts in
    which the array is accessed elsewhere, too. Only a `Within` counts that visits about as many words as the array has.
    Arrays that are used once, at the end of whose `Within` nothing begins with them, are left out. A procedure whose
    array is in use is not run again: those of recursive ones lie in frames, and have no address.
    Trap: `of` names the array of a `Within` again for others inside it, where it is not zero.
    """

    #: arrays of so few words count always; visits of a loop whose length is not known
    _FEW, _MANY = 4, 1 << 40

    def __init__(self, module: ir.Module, accesses: AccessAnalysis) -> None:
        self._procedures, self._accesses = module.procedures, accesses
        self._known: dict[int, tuple[ir.Node, Memories]] = {}
        #: procedures whose statements are being looked at
        self._open: set[str] = set()
        self._own = private_regions(module)
        if self._own:
            left = frozenset().union(*(self._outside(node) for block in bodies(module) for node in block))
            self._own = frozenset() if None in left else self._own - left
            self._known.clear()
            uses = Counter(self._uses(module.entry, 1))
            for p in module.procedures.values():
                uses.update(self._uses(p.body, 2))
            self._own = frozenset(r for r in self._own if uses[r] > 1)
            self._known.clear()

    def of(self, node: ir.Within) -> list[ir.Region]:
        """The arrays that are zero before and after this statement, by address."""
        if not self._own:
            return []
        found = [r for r in self._inside(node) - self._outside(node) if r is not None]
        return sorted(found, key=lambda r: r.address or 0)

    def _uses(
        self, block: Iterable[ir.Node], times: int, alive: frozenset[ir.Region] = frozenset()
    ) -> Iterator[ir.Region]:
        """The arrays of the `Within` of a block that runs so often, once or more often, each as often."""
        for node in block:
            own = [r for r in self.of(node) if r not in alive] if isinstance(node, ir.Within) else []
            for region in own:
                yield from (region,) * times
            inside = 2 if isinstance(node, ir.For | ir.While) else times
            for inner in ir.children(node):
                yield from self._uses(inner, inside, alive.union(own))

    def _inside(self, node: ir.Within) -> Memories:
        return frozenset().union(*map(self._outside, (*node.compute, *node.body)))

    def _outside(self, node: ir.Node) -> Memories:
        """The memory that a statement accesses outside of a `Within` that restores it; None is any memory."""
        found = self._known.get(id(node))
        if found is None:
            found = self._known[id(node)] = node, self._found(node)
        return found[1]

    def _found(self, node: ir.Node) -> Memories:
        match node:
            case ir.Within():
                inside, clobbered = self._inside(node), clobbered_between(node, self._accesses).stores
                return frozenset(r for r in inside if not self._restores(node, r, clobbered))
            case ir.Call(procedure=name, regions=regions):
                if name in self._open:
                    return self._accesses.of(node).loads
                procedure = self._procedures[name]
                self._open.add(name)
                inside = frozenset().union(*map(self._outside, procedure.body))
                self._open.discard(name)
                names: dict[Memory, Memory] = dict(zip(procedure.regions, regions, strict=True))
                return frozenset(names.get(r, r) for r in inside)
            case ir.External():
                return NO_MEMORY  # the host sees words, and no shadows
            case ir.If(then=then, orelse=orelse):
                return frozenset().union(*map(self._outside, (*then, *orelse)))
            case ir.While(body=body) | ir.For(body=body):
                return frozenset().union(*map(self._outside, body))
            case ir.Op() | ir.Local() | ir.Delocal() | ir.Check():
                return self._accesses.of(node).loads

    def _restores(self, node: ir.Within, region: Memory, clobbered: Memories) -> bool:
        if region is None or region not in self._own or None in clobbered or region in clobbered:
            return False
        return region.size <= self._FEW or self._visits((*node.compute, *node.body), region) >= region.size

    def _visits(self, block: Iterable[ir.Node], region: ir.Region) -> int:
        """About how often the block accesses the array."""
        visits = 0
        for node in block:
            if region not in self._accesses.of(node).loads:
                continue
            match node:
                case ir.Within(compute, body):
                    visits += self._visits((*compute, *body), region)
                case ir.If(then=then, orelse=orelse):
                    visits += self._visits((*then, *orelse), region)
                case ir.For(start=ir.Const(start), stop=ir.Const(stop), step=step, body=body):
                    visits += abs(stop - start) // abs(step) * self._visits(body, region)
                case ir.Op():
                    visits += 1
                case ir.For() | ir.While() | ir.Call() | ir.External() | ir.Local() | ir.Delocal() | ir.Check():
                    visits += self._MANY
        return min(visits, self._MANY)


def private_regions(module: ir.Module) -> frozenset[ir.Region]:
    """The program's own arrays, which are zero outside of their lives; none where the arguments are not declared."""
    given = module.arguments
    if given is None:
        return frozenset()
    return frozenset(r for r in module.regions if r.address is not None and r.data is None and r not in given)


def constant_regions(module: ir.Module, accesses: AccessAnalysis) -> frozenset[ir.Region]:
    """The arrays with data that no statement writes, and whose exact numbers are not recorded."""
    stored = union(accesses.block(block) for block in bodies(module)).stores
    if None in stored:
        return frozenset()
    return frozenset(r for r in module.regions if r.data and r.exact is None and r not in stored)


def only_adds(
    procedures: Mapping[str, ir.Procedure], name: str, index: int, open_calls: frozenset[tuple[str, int]] = frozenset()
) -> bool:
    """Whether a procedure uses one of its parameters in sums only, so that it gives y + s wherever it gives 0 + s.

    A recursive call (`open_calls`) does so if the rest of the procedure does.
    """
    procedure = procedures[name]
    var = procedure.params[index]
    around = open_calls | {(name, index)}
    for node in walk(procedure.body):
        places = operands_of(node)
        if var not in places:
            continue
        if places.count(var) != 1:
            return False
        if isinstance(node, ir.Op):
            if node.d is not var or not facts(node.opcode).updates:
                return False
            if node.opcode.name.rpartition(".")[2] not in ("add", "sub"):
                return False
        elif isinstance(node, ir.Call):
            passed = node.procedure, places.index(var)
            if passed not in around and not only_adds(procedures, *passed, around):
                return False
        else:
            return False
    return True
