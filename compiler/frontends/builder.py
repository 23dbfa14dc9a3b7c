"""Module under construction: procedures, static memory, source files, and blocks for the host.

Each front end lowers its functions into one `ModuleBuilder`. Nothing here depends on a source language.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from retrograd.compiler.frontends.constants import Constants
from retrograd.compiler.ir.effects import AccessAnalysis, AccessSets, locals_left, union
from retrograd.compiler.ir.expressions import Address, E, Ranges, add, apply, are_apart, const, linear, loads, variables
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import (
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
    Var,
    Within,
)
from retrograd.compiler.ir.traversal import map_children
from retrograd.compiler.language.arithmetic import Powers
from retrograd.compiler.language.values import Condition, Scalar, Value
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
    """Collects procedures, memory and source files of one program. `recorded`: see `Constants`."""

    def __init__(self, w: Format, recorded: bool = False) -> None:
        self.w = w
        self.procedures: dict[str, Procedure] = {}
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
        self.constants = Constants(w, self._constant_region, recorded)
        self._constant_regions: dict[tuple[tuple[int, ...], Exact | None], Region] = {}
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
        """A stretch of memory at a fixed address. `layouts`: the arrays of the source in it. Raises CompileError RG0421 beyond the largest address."""
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

    def _constant_region(self, words: tuple[int, ...], exact: Exact | None, span: Span | None) -> Region:
        """The memory of constants; equal ones share one region."""
        key = words, exact
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
# Each statement that writes a place gives it a new version. An expression has its former value if the versions of all places that it
# reads are unchanged, or if the writes to an array since then changed none of its elements; `snapshot` records the versions.

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
        #: called before the versions change, with the written places and the variable that the caller accounts for
        self.on_write: Callable[[set[Any], Var | None], None] | None = None

    def temporaries(self) -> Temporaries:
        return Temporaries(self.w, self.span, self.module.powers, self.enclosing)

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

        `known`: a variable whose update the caller records itself. `stores`: all words that they change of the arrays in which these lie,
        by the first of words in a row and their number, None where that is not known. `made_of_blocks`: in memory they change the same words as the blocks inside
        them, whose statements were emitted before.
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

    `versions`: of the places that it reads. `loops`: those around the name. `used`: the loops around its innermost use that may run again.
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
