"""Construction of a program in the IR, for the front ends of all languages.

`ModuleBuilder`: the module with its procedures, static memory, source files, and blocks for the host. For one function:
`WriteLog` and
`IRBuilder`, its statements and the versions of its variables and arrays; `Scope`, its names; `OwnedLocals`, the locals
that it has to free.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from retrograd.compiler.frontends.constants import Constants
from retrograd.compiler.frontends.powers import Powers
from retrograd.compiler.ir.effects import AccessAnalysis, AccessSets, locals_left, union
from retrograd.compiler.ir.expressions import (
    Address,
    E,
    Length,
    Ranges,
    add,
    apply,
    are_apart,
    const,
    linear,
    loads,
    read,
    variables,
)
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.instruction_selection import OPPOSITE
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Check,
    Delocal,
    Exact,
    Kind,
    Local,
    Module,
    Node,
    Procedure,
    Region,
    Test,
    Var,
    Within,
)
from retrograd.compiler.ir.traversal import map_children
from retrograd.compiler.language.types import ScalarType, is_empty, words_of
from retrograd.compiler.language.values import ArrayView, Condition, Scalar, StackValue, Value
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span
from retrograd.isa.encoding import IMMEDIATE_MAX
from retrograd.isa.program import ArrayLayout
from retrograd.isa.words import Format


@dataclass(frozen=True)
class HostBlock:
    """Statements for the host: `run(names)` executes them, where `names` are the values that `watched` stands for.

    Calling it may raise anything; `file` is the source file whose lines the traceback shows.
    """

    run: Callable[[dict[str, Any]], None]
    watched: Mapping[str, Value]
    file: str


@dataclass(frozen=True)
class _Checkpoint:
    procedures: dict[str, Procedure]
    memory: int
    regions: int
    names: dict[str, int]


class ModuleBuilder:
    """Collects procedures, memory and source files of one program. `recorded`, `real`: see `Constants`.

    `placed`: temporaries are at the place of their expressions, and not at that of their statements.
    """

    def __init__(self, w: Format, recorded: bool = False, real: bool = False, placed: bool = False) -> None:
        self.w = w
        #: expression → its place in the statement that was read last
        self.places: dict[E, Span] | None = {} if placed else None
        #: places of expressions that are computed once
        self.equal_places: set[tuple[Span, Span]] = set()
        self.procedures: dict[str, Procedure] = {}
        #: the functions of Python that were lowered, in their order
        self.functions: dict[Any, None] = {}
        self.regions: list[Region] = []
        #: regions that hold words between the procedures that use them
        self.outliving: list[Region] = []
        self.memory = 0
        #: file → its lines
        self.files: dict[str, Sequence[str]] = {}
        self.host_blocks: list[HostBlock] = []
        #: variable -> the lines at which it lends its word to a view, which turns it
        self.viewed = defaultdict[str, set[tuple[str, int]]](set)
        #: calls in expressions that add to the target of an update, by analysis or by assumption
        self.calls_in_place = 0
        #: place of the first condition of a branch or loop → (condition before it, condition after it)
        self.conditions: dict[Span, tuple[Condition, Condition]] = {}
        #: place of a branch or loop → its condition or bounds, in words
        self.statement_texts: dict[Span, str] = {}
        self._names: dict[str, int] = {}
        self.constants = Constants(w, self._constant_region, recorded, real)
        self._constant_regions: dict[tuple[tuple[int, ...], Exact | None, Any], Region] = {}
        self.powers = Powers(w, self._power_region, self._power_procedure)
        self.forget_accesses()

    def forget_accesses(self) -> None:
        """Analyse the effects of procedures again: the effects of a recursive procedure were an assumption."""
        self.accesses = AccessAnalysis(Module((), self.procedures, format=self.w))

    def unique_name(self, name: str) -> str:
        """A name that no other procedure has."""
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return name if count == 0 else f"{name}.{count + 1}"

    def static_region(
        self,
        name: str,
        size: int,
        span: Span | None,
        data: tuple[int, ...] | None = None,
        layouts: tuple[ArrayLayout, ...] = (),
        exact: Exact | None = None,
    ) -> Region:
        """A stretch of memory at a fixed address.

        `layouts`: the arrays of the source in it. Raises CompileError RG0421 beyond the largest address.
        """
        most = min(self.w.mask, IMMEDIATE_MAX)
        if self.memory + size > most:
            message = f"`{name.rpartition('.')[2]}` needs {size} words, and addresses go up to {most}"
            line = self.files[span.file][span.line - 1] if span is not None and span.file in self.files else None
            raise CompileError(
                Diagnostic("RG0421", message, span, "Ask for less, or choose a format of wider words.", line)
            )
        count = self._names.get(f"[{name}]", 0)
        self._names[f"[{name}]"] = count + 1
        region = Region(name if count == 0 else f"{name}.{count}", size, self.memory, data, span, layouts, exact)
        self.memory += size
        self.regions.append(region)
        return region

    def host_block(self, block: HostBlock) -> int:
        """Keep statements for the host: their number."""
        self.host_blocks.append(block)
        return len(self.host_blocks) - 1

    def checkpoint(self) -> _Checkpoint:
        return _Checkpoint(dict(self.procedures), self.memory, len(self.regions), dict(self._names))

    def restore(self, saved: _Checkpoint) -> None:
        """Drop procedures, regions and names that were added since the checkpoint."""
        self.procedures.clear()
        self.procedures.update(saved.procedures)
        self.memory, self._names = saved.memory, dict(saved.names)
        del self.regions[saved.regions :]
        self.outliving = [r for r in self.outliving if r in self.regions]
        self.powers.keep(self.procedures, self.regions)
        self._constant_regions = {k: r for k, r in self._constant_regions.items() if r in self.regions}
        self.forget_accesses()

    def _constant_region(self, words: tuple[int, ...], exact: Exact | None, span: Span | None, own: Any) -> Region:
        """The memory of constants; equal ones share one region, if `own` is equal, too."""
        key = words, exact, own
        if key not in self._constant_regions:
            place = None if exact is None else span
            self._constant_regions[key] = self.static_region("constant", len(words), place, words, (), exact)
        return self._constant_regions[key]

    def _power_region(self, kind: Kind) -> Region:
        return self.static_region(f"powers of {kind.value}", self.w.width, None)

    def _power_procedure(self, procedure: Procedure) -> str:
        name = self.unique_name(procedure.name)
        self.procedures[name] = replace(procedure, name=name)
        return name


# -----------------------------------------------------------------------------
# Log of writes to memory: the elements of an array that statements may have changed.
#
#     t = f(p[k]); p[k + 1] += t          p[k] is as before, since the one write to p changed another element
#
# A loop or a branch changes the elements that its blocks change; the ranges of indices bound them.


class Write(NamedTuple):
    """Words in a row that a statement may have changed.

    `versions`: those of the variables of the address and of bounds of its indices.
    """

    address: Address
    versions: Mapping[Var, int]
    words: int = 1


#: the words that a statement may have changed; None where they are not known
Writes = tuple[Write, ...] | None


class WriteLog:
    """The writes of one function to each region."""

    def __init__(self, ranges: Ranges, w: Format) -> None:
        self._ranges, self._w = ranges, w
        #: (region, version) → the version before it, and the writes between the two
        self._events: dict[tuple[Region, int], tuple[int, Writes]] = {}
        #: the writes in the current block so far, and in blocks inside it of which no statement is made yet
        self._here: dict[Region, Writes] = {}
        self._inside: dict[Region, Writes] = {}
        self._around: list[tuple[dict[Region, Writes], dict[Region, Writes]]] = []

    def begin(self) -> None:
        """A block begins."""
        self._around.append((self._here, self._inside))
        self._here, self._inside = {}, {}

    def end(self) -> None:
        """A block ends: its writes are those of the statement that it will be a part of."""
        found = (self._here, self._inside)
        self._here, self._inside = self._around.pop()
        for writes in found:
            for region, more in writes.items():
                _join(self._inside, region, more)

    def taken(self) -> dict[Region, Writes]:
        """The writes in the blocks that ended, for the statement that is made of them."""
        found, self._inside = self._inside, {}
        return found

    def add(self, region: Region, before: int, after: int, writes: Writes) -> None:
        """Between two versions of a region there were these writes."""
        self._events[region, after] = before, writes
        _join(self._here, region, writes)

    def leaves(
        self,
        region: Region,
        then: int,
        now: int,
        read: Sequence[tuple[Address, int]],
        operands: Mapping[Var | Region, int],
    ) -> bool:
        """Whether the words that were read in one version are the same in a later one.

        `operands`: the versions of the variables of their addresses, which are the same now as then.
        """
        read = [(at, words) for at, words in read if at.region is region]
        while now != then:
            before, writes = self._events.get((region, now), (0, None))
            if writes is None or not all(self._misses(w, at, words, operands) for w in writes for at, words in read):
                return False
            now = before
        return True

    def _misses(self, write: Write, at: Address, words: int, operands: Mapping[Var | Region, int]) -> bool:
        """Whether a write changed none of the words from an address on."""
        if any(operands.get(var, version) != version for var, version in write.versions.items()):
            return False
        return are_apart(write.address, write.words, at, words, self._ranges, self._w)

    def operands_of(self, address: Address) -> set[Var]:
        """The variables on which an address depends, and bounds of its indices."""
        found = set() if address.base is None else {address.base}
        left = [v for term, _ in address.terms for v in variables(term)]
        while left:
            var = left.pop()
            if var not in found:
                found.add(var)
                left += [v for e in self._ranges.between.get(var, ()) for v in variables(e)]
        return found


def is_traceable(address: Address) -> bool:
    """Whether an address depends on variables alone, and on no word of memory."""
    return not any(loads(term) for term, _ in address.terms)


def _join(found: dict[Region, Writes], region: Region, more: Writes) -> None:
    known = found.get(region, ())
    found[region] = None if known is None or more is None else (*known, *more)


# -----------------------------------------------------------------------------
# IR construction for one function: the statements emitted so far, and the version of each variable and array.
#
# Each statement that writes a place gives it a new version. An expression has its former value if the versions of
# all places that it
# reads are unchanged, or if the writes to an array since then changed none of its elements; `snapshot` records the
# versions.

Versions = dict[Var | Region, int]


class IRBuilder:
    """Emits the body of one function; `span` is the source of the statement that is being lowered."""

    def __init__(self, module: ModuleBuilder, span: Span) -> None:
        self.module = module
        self.w = module.w
        self.span = span
        self.out: list[Node] = []
        #: blocks around the current statement
        self.depth = 0
        self.versions: Counter[Var | Region] = Counter()
        self.written: set[Var | Region] = set()
        self.ranges = Ranges()
        self.log = WriteLog(self.ranges, self.w)
        self._writes = 0
        #: variables whose value does not change while they are in scope: the indices of loops
        self.settled: set[Var] = set()
        #: temporaries around the loop over an array's elements that is being emitted
        self.enclosing: Temporaries | None = None
        #: whether statements are in a block `with rg.unchecked()`
        self.unchecked = False
        #: how many routines around the current statement are computed, and will be uncomputed
        self.computing = 0
        #: called before the versions change, with the written places and the variable that the caller accounts for
        self.on_write: Callable[[set[Any], Var | None], None] | None = None

    def temporaries(self) -> Temporaries:
        realigned = self.module.constants.realigned if self.module.constants.recorded else None
        return Temporaries(self.w, self.span, self.module.powers, self.enclosing, realigned, self.module.places)

    @contextmanager
    def collect(self) -> Iterator[list[Node]]:
        """Statements emitted inside go to the list that is yielded."""
        outer, self.out = self.out, []
        self.log.begin()
        try:
            yield self.out
        finally:
            self.out = outer
            self.log.end()

    def emit(
        self,
        nodes: Sequence[Node],
        known: Var | None = None,
        *,
        stores: Iterable[tuple[Address, int | None]] = (),
        made_of_blocks: bool = False,
    ) -> None:
        """Append statements and note their writes.

        `known`: a variable whose update the caller records itself. `stores`: all words that they change of the arrays
        in which these lie, by the first of words in a row and their number, None where that is not known.
        `made_of_blocks`: in memory they change the same words as the blocks inside them, whose statements were emitted
        before.
        """
        inside = self.log.taken() if made_of_blocks else self._writes_to(stores)
        for given in nodes:
            node = self._tested(given) if isinstance(given, Within) and given.name is None else given
            for kept in without_tests((node,)) if self.unchecked else (node,):
                self.out.append(kept)
                self.note(self.module.accesses.of(kept), known, inside)

    def _writes_to(self, stores: Iterable[tuple[Address, int | None]]) -> dict[Region, Writes]:
        found: dict[Region, Writes] = {}
        for at, words in stores:
            before = found.get(at.region, ())
            if before is None or words is None or not is_traceable(at):
                found[at.region] = None
                continue
            reads = self.log.operands_of(at) - self.settled
            found[at.region] = (*before, Write(at, {v: self.versions[v] for v in reads}, words))
        return found

    def note(
        self, access: AccessSets, known: Var | None = None, writes: Mapping[Region, Writes] = MappingProxyType({})
    ) -> None:
        """Note the writes of statements. `writes`: the words that they change in memory, as far as these are known."""
        written: set[Any] = {*access.writes, *access.stores}
        if None in written:
            written |= {p for p in self.versions if isinstance(p, Region)}
        if self.on_write is not None:
            self.on_write(written, known)
        for place in written:
            self._writes += 1
            if isinstance(place, Region):
                found = writes.get(place) if place in access.stores else None
                self.log.add(place, self.versions[place], self._writes, found)
            self.versions[place] = self._writes
        self.written |= written

    def end(self, places: Iterable[Var | Region]) -> None:
        """Note that places were freed: values that were computed from them cannot be computed again."""
        self._writes += 1
        for place in places:
            self.versions[place] = self._writes

    def is_unchanged(self, place: Var | Region, versions: Versions, read: Sequence[tuple[Address, int]] | None) -> bool:
        """Whether a place is as it was in these versions, or an array as far as these words of it were read."""
        then, now = versions[place], self.versions[place]
        if then == now or read is None or isinstance(place, Var):
            return then == now
        return self.log.leaves(place, then, now, read, versions)

    def snapshot(self, *expressions: E) -> Versions:
        """The versions of the places that expressions read."""
        places: set[Var | Region] = set()
        for e in expressions:
            places |= variables(e)
            places |= {a.region for a, _ in loads(e)}
        return {p: self.versions[p] for p in places}

    def meaning(self, e: E) -> tuple[E, frozenset[tuple[Any, int]]]:
        """An integer expression as it is now: two are equal if they have the same value."""
        atoms, constant = linear(e)
        total = const(constant, Kind.INT)
        for atom, factor in atoms.items():
            total = add(total, apply("mul", Kind.INT, atom, const(factor, Kind.INT)), self.w)
        return total, frozenset(self.snapshot(e).items())

    def effects(self, block: Block) -> AccessSets:
        """The reads and writes of a block, without its own locals."""
        return self.module.accesses.block(block)

    def effects_with_locals(self, block: Block) -> AccessSets:
        return union(self.module.accesses.of(n) for n in block)

    def _tested(self, node: Within) -> Within:
        """The statement, its temporaries tested for zero where its body may change their operands.

        A change that is certain is refused elsewhere, when the program is compiled.
        """
        compute, body = self.effects_with_locals(node.compute), self.effects(node.body)
        own = frozenset(locals_left(node.compute))
        clobbered = (body.writes - own) & compute.reads or (
            body.stores and compute.loads and (None in body.stores | compute.loads or body.stores & compute.loads)
        )
        return node._replace(compute=with_tests(node.compute)) if clobbered else node


def with_tests(compute: Block) -> Block:
    """The compute block; the machine tests that its locals are zero when they are freed."""
    return tuple(n._replace(checked=True) if isinstance(n, Local) else n for n in compute)


def without_tests(block: Block) -> Block:
    """The block without its tests that freed variables are zero and that second conditions hold; tests for memory stay."""
    out: list[Node] = []
    for node in block:
        if isinstance(node, Local | Delocal):
            out.append(node._replace(checked=False))
        elif not isinstance(node, Check) or node.code != "RG0803":
            out.append(map_children(node, without_tests))
    return tuple(out)


# -----------------------------------------------------------------------------
# Symbol table of one function: the value of each name, and where a name lost its value.


@dataclass(eq=False)
class Borrowed:
    """A number that a loop names: it lies in an array or a variable, and in Python the name keeps it when that changes.

    `versions`: of the places that it reads. `loops`: those around the name. `used`: the loops around its innermost use
    that may run again.
    """

    value: Value
    parts: tuple[Scalar, ...]
    versions: Versions
    loops: int
    used: int = 0


class Scope:
    """The names that are visible at the current statement."""

    def __init__(self) -> None:
        self.names: dict[str, Value] = {}
        #: names that were freed, and where: for messages
        self.freed: dict[str, Span] = {}
        #: values that lost their names, and where: inner functions may use them
        self.lost: list[tuple[Value, Span]] = []
        #: names whose variables are changed through a view, and a predicate for messages: `is seen as `m``
        self.lent: dict[str, str] = {}
        #: names of numbers that lie elsewhere
        self.borrowed: dict[str, Borrowed] = {}
        #: loops around the current statement
        self.loops = 0

    def free(self, name: str, where: Span) -> None:
        """Remove a name; a later use of it is refused with this place."""
        if name in self.names:
            self.lost.append((self.names.pop(name), where))
        self.freed[name] = where


# -----------------------------------------------------------------------------
# Ledger of owned locals: variables and arrays that a function allocated itself and has to free.
#
# A local that was allocated with the value of e is freed by subtracting e again. Its memory is zero exactly if e has
# its former
# value and every update since has been undone. The ledger decides this from versions and from the history of
# updates; where it
# cannot, the machine tests for zero. The test is made at the allocation too, which is where running backward frees
# the local.


class Update(NamedTuple):
    """`x update= e`, with the versions of the places that e reads."""

    update: str
    e: E
    reads: Versions

    def undoes(self, other: Update) -> bool:
        return self.update == OPPOSITE[other.update] and self[1:] == other[1:]


class _Undoable(NamedTuple):
    """An update that the same block may undo, and the versions of its target before and after it."""

    made: Update
    before: int
    after: int


@dataclass(eq=False)
class OwnedLocal:
    """A variable or array that the function allocated."""

    name: str
    value: Value
    #: the variables and regions that it consists of
    parts: tuple[Var | Region, ...]
    #: (checked, place of a statement that frees it) → statements that undo the initial value and free it
    release: Callable[[bool, Span | None], Block]
    #: versions of the places from which its initial value was computed
    operands: Versions
    span: Span
    #: the words of memory from which its initial value was computed; None where they are not known
    read: Sequence[tuple[Address, int]] | None = None
    #: updates since the allocation, newest last; None where not all are known
    history: list[Update] | None = field(default_factory=list)
    #: the initial value of a scalar
    initial: E | None = None
    #: whether the initial value was subtracted again
    gone: bool = False
    #: the list that its allocation was emitted to, and where in it a test for zero belongs
    emitted: tuple[list[Node], int] | None = None
    #: statements that give back its words on the stack, in the order in which arrays were put there, the last first
    frame: Block = ()
    #: blocks around its allocation
    depth: int = 0
    #: the statement that freed it
    freed: Span | None = None
    #: whether it was made in a block `with rg.unchecked()`
    unchecked: bool = False


class OwnedLocals:
    """The owned locals of one function; the locals of the current block come last in `owned`."""

    def __init__(self, builder: IRBuilder, scope: Scope, fail: Callable[..., NoReturn]) -> None:
        self.builder, self.scope, self.fail = builder, scope, fail
        self.owned: list[OwnedLocal] = []
        #: locals with a constant integer as initial value, and where that value was used as a constant
        self._constants: dict[Var, int] = {}
        self._relied_on: dict[Var, Span] = {}
        self._freeing = False
        #: places whose writes are recorded already
        self._recorded: set[Var | Region] = set()
        #: (block, place) → its updates that may still be undone
        self._undoable: dict[tuple[int, Var | Address], list[_Undoable]] = {}
        builder.on_write = self._note_writes

    # ------------------------------------------------------------------ allocation

    def add(self, local: OwnedLocal) -> None:
        """Own a local whose allocation has been emitted."""
        local.depth = self.builder.depth
        local.unchecked = self.builder.unchecked
        self.owned.append(local)
        initial = local.initial
        if initial is not None and initial.op == "const" and initial.kind in (Kind.INT, Kind.UINT):
            (var,) = local.parts
            assert isinstance(var, Var)
            self._constants[var] = self.builder.w.signed(initial.param)

    def owner(self, part: Var | Address | Region | None) -> OwnedLocal | None:
        return next((m for m in self.owned if part in m.parts), None)

    def constant(self, value: Value, where: Span) -> int | None:
        """The value of an unchanged local that was allocated with a constant integer.

        It may not change from here on.
        """
        if isinstance(value, Scalar) and isinstance(value.place, Var) and value.place in self._constants:
            local = self.owner(value.place)
            if local is not None and local.history == []:
                self._relied_on[value.place] = where
                return self._constants[value.place]
        return None

    # ------------------------------------------------------------------ updates

    def emit_update(self, where: Var | Address, update: str, e: E, nodes: Sequence[Node]) -> None:
        """Emit `where update= e`, which `nodes` carry out, and record it.

        `x += e` followed by `x -= e` leaves x as it was, so that x has its former version.
        """
        builder = self.builder
        terms = [term for term, _ in where.terms] if isinstance(where, Address) else []
        made = Update(update, e, builder.snapshot(e, *terms))
        known: Var | None = None
        if isinstance(where, Var):
            local = self.owner(where)
            if (
                local is not None
                and local.history is not None
                and local.depth == builder.depth
                and isinstance(local.value, Scalar)
            ):
                self._record(local, local.history, made)
                known = where
        place, target = (where, where) if isinstance(where, Var) else (where.region, where._replace(checks=()))
        before = builder.versions[place]
        builder.emit(nodes, known, stores=words_at(where))
        updates = self._undoable.setdefault((id(builder.out), target), [])
        if updates and updates[-1].made.undoes(made) and before == updates[-1].after:
            builder.versions[place] = updates.pop().before
        else:
            updates.append(_Undoable(made, before, builder.versions[place]))

    def _record(self, local: OwnedLocal, history: list[Update], made: Update) -> None:
        if history:
            if history[-1].undoes(made):
                history.pop()
                return
        elif (
            local.initial == made.e
            and local.operands == made.reads
            and made.update in (("add", "xor", "mul") if local.gone else ("sub", "xor", "div"))
        ):
            # The initial value is subtracted, which leaves zero, or added again.
            local.gone = not local.gone
            return
        history.append(made)

    def erased(self, var: Var) -> None:
        """Record that a variable is zero now."""
        local = next((m for m in self.owned if var in m.parts and m.depth == self.builder.depth), None)
        if local is not None:
            local.gone, local.initial, local.history, local.operands = True, None, [], {}

    @contextmanager
    def recorded(self, locals: Sequence[OwnedLocal]) -> Iterator[None]:
        """Statements emitted within hold updates of these locals that were recorded before: their versions and histories stay."""
        parts = {p for m in locals for p in m.parts}
        versions = {p: self.builder.versions[p] for p in parts}
        outer, self._recorded = self._recorded, parts
        yield
        self._recorded = outer
        for place, version in versions.items():
            self.builder.versions[place] = version

    def _note_writes(self, written: set[Any], known: Var | None) -> None:
        written = written - self._recorded
        for place in written & self._relied_on.keys() if not self._freeing else ():
            line = self._relied_on[place].line
            message = f"`{place.name}` was used in line {line} as a constant, and changes here"
            hint = f"Use another variable than `{place.name}` for one of the two."
            self.fail("RG0709", message, self.builder.span, hint)
        for local in self.owned:
            if local.history is not None and any(p in written and p is not known for p in local.parts):
                local.history = None

    # ------------------------------------------------------------------ release

    def release(self, local: OwnedLocal, where: Span | None = None) -> None:
        """Free a local: its initial value is undone; that zero is left is known, or tested.

        `where`: the freeing expression.
        """
        builder = self.builder
        span = where or local.span
        versions = builder.versions
        stale = [
            p
            for p in local.operands
            if p not in local.parts and not builder.is_unchanged(p, local.operands, local.read)
        ]
        arrays = [p for p in local.parts if isinstance(p, Region)]
        if arrays:
            changed = any(versions[p] != local.operands[p] for p in arrays)
        else:
            changed = local.history is None or bool(local.history)
        changed = changed and not self.is_trusted(local)
        if stale:
            self._refuse_stale(local, stale[0], span)
        if local.history and local.initial is not None and not local.gone:
            left = self._certain_rest(local.history, local.initial)
            if left is not None:
                self.fail("RG0710", f"`{local.name}` holds {left} when it is freed", span)
        previous, builder.span = builder.span, span
        if local.gone:
            (var,) = local.parts
            assert isinstance(var, Var)
            block: Block = (Delocal(var, changed, local.span),)
        else:
            block = (*local.release(changed, where), *self.given_back(local))
        if changed:
            self.test_allocation(local)
        builder.span = previous
        self._freeing = True
        self.remove(local, block)
        self._freeing = False
        for part in local.parts:
            if isinstance(part, Var):
                # The block may be emitted again, as a part of the one around it.
                self._relied_on.pop(part, None)
        for name in [n for n, value in self.scope.names.items() if value is local.value]:
            self.scope.free(name, span)

    def given_back(self, local: OwnedLocal) -> Block:
        """The statements that give back the words of a local on the stack: below the words of a later one, these give back its words, too."""
        later = self.owned[self.owned.index(local) + 1 :]
        above = next((m for m in later if m.frame), None) if local.frame else None
        if above is None:
            return local.frame
        above.frame = (*above.frame, *local.frame)
        above.operands |= {p: version for p, version in local.operands.items() if p not in local.parts}
        return ()

    def is_trusted(self, local: OwnedLocal) -> bool:
        """Whether a local is freed without a test: it was made, or is freed, in a block `with rg.unchecked()`."""
        return local.unchecked or self.builder.unchecked

    def remove(self, local: OwnedLocal, release: Block) -> None:
        """Emit the statements that free a local, which is owned no more."""
        self.owned.remove(local)
        local.freed = self.builder.span
        self.builder.emit(release)

    def _refuse_stale(self, local: OwnedLocal, place: Var | Region, where: Span) -> NoReturn:
        what = own_name(place) if isinstance(place, Region) else place.name
        gone = self.scope.freed.get(what)
        since = "has changed since" if gone is None else f"was freed in line {gone.line}"
        hint = f"Free `{local.name}` before, with `del {local.name}`, or undo the change of `{what}` first."
        if isinstance(local.value, Scalar):
            hint = f"{hint[:-1].replace(', or', ',')}, or give the value that `{local.name}` has then: `rg.free({local.name}, …)`."
        self.fail("RG0718", f"`{local.name}` was made from `{what}`, which {since}", where, hint)

    def _certain_rest(self, history: Sequence[Update], initial: E) -> str | None:
        """The constant that a variable certainly holds beyond its initial value, or None."""
        w = self.builder.w
        if any(e.op != "const" or update not in ("add", "sub") for update, e, _ in history):
            return None
        total = sum(w.signed(e.param) * (1 if update == "add" else -1) for update, e, _ in history)

        def number(word: int) -> str:
            if initial.kind is Kind.UINT:
                return str(word & w.mask)
            return f"{float(initial.kind.numbers(w).to_real(w.wrap(word)))}" if initial.kind.is_fixed else str(word)

        if initial.op != "const":
            return (
                f"{total if initial.kind is Kind.UINT else number(total)} more than it was made with" if total else None
            )
        start = w.signed(initial.param)
        return None if total == 0 or total + start == 0 else f"{number(total + start)} and not {number(start)}"

    # ------------------------------------------------------------------ tests for zero

    def test_allocation(self, local: OwnedLocal) -> None:
        """Test for zero at the allocation: a run backward frees the local there."""
        if self.is_trusted(local):
            return
        out = self.builder.out
        for index in range(len(out) - 1, -1, -1):
            node = out[index]
            if isinstance(node, Local) and node.var in local.parts:
                out[index] = node._replace(checked=True)
                break
        if isinstance(local.value, ArrayView | StackValue) and local.emitted is not None and local.emitted[0] is out:
            tests = self.zero_tests(local.value)
            at = local.emitted[1]
            out[at:at] = tests
            for other in self.owned:
                if other.emitted is not None and other.emitted[0] is out and other.emitted[1] > at:
                    other.emitted = (out, other.emitted[1] + len(tests))

    def tested(self, compute: Block, own: Sequence[OwnedLocal]) -> Block:
        """A compute block, with tests that each of its locals is zero when it is freed."""
        trusted = {p for local in own if local.unchecked for p in local.parts}
        out = [n._replace(checked=n.var not in trusted) if isinstance(n, Local) else n for n in compute]
        for local in reversed(own):
            if self.is_trusted(local):
                continue
            if isinstance(local.value, ArrayView | StackValue) and local.emitted is not None:
                # The list was copied since the allocation; the position is still valid.
                out[local.emitted[1] : local.emitted[1]] = self.zero_tests(local.value)
        return tuple(out)

    def zero_tests(self, view: ArrayView | StackValue) -> Block:
        """Tests that each word of an array is zero."""
        span = self.builder.span
        shape: tuple[Length, ...] = (
            (view.type.size,) if isinstance(view, StackValue) else (*view.shape, view.element.size)
        )
        if is_empty(shape):
            return ()
        region = view.address.region
        kind = view.element.kind if isinstance(view, ArrayView) and isinstance(view.element, ScalarType) else Kind.INT
        name = own_name(region)
        i, word = Var("i", Kind.INT), Var(name, kind, region.span)
        t = self.builder.temporaries()
        t.compute.append(Local(word, True, span))
        # The word is exchanged out and found to be zero: memory is as before.
        t.compute.append(t.memory("exch", word, view.address.shifted(read(i), 1)))
        match view:
            case StackValue():
                message = f"the stack `{name}` holds values when it is freed, and must be empty"
            case ArrayView(element=ScalarType(), shape=(_,)):
                message = f"`{name}[{{k}}]` is left with {{a}} when `{name}` is freed, and must be zero"
            case _:
                message = f"`{name}` is freed with an element that is not zero: number {{k}} is {{a}}"
        body = t.wrap((Check(Test("eq", word, ZERO), "RG0802", message, span),))
        outer = self.builder.temporaries()
        return outer.wrap(outer.loops((i,), (words_of(shape),), body))

    def histories(self) -> dict[int, list[Update] | None]:
        """The recorded updates of each local, by its identity."""
        return {id(m): None if m.history is None else list(m.history) for m in self.owned}


def words_at(*places: Var | Address | None) -> list[tuple[Address, int]]:
    """The words of memory among places, each with its number of words."""
    return [(place, 1) for place in places if isinstance(place, Address)]


def own_name(region: Region) -> str:
    """The user's name of an array: its region's name also has the function's, and a number."""
    parts = region.name.split(".")
    return next(p for p in (*reversed(parts), region.name) if not p.isdigit())
