"""IR construction for one function: the statements emitted so far, and the version of each variable and array.

Each statement that writes a place gives it a new version. An expression has its former value if the versions of all places that it
reads are unchanged, or if the writes to an array since then changed none of its elements; `snapshot` records the versions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from retrograd.compiler.frontends.module_builder import ModuleBuilder
from retrograd.compiler.frontends.write_log import Write, WriteLog, Writes, is_traceable
from retrograd.compiler.ir.effects import AccessSets, locals_left, union
from retrograd.compiler.ir.expressions import Address, E, Ranges, add, apply, const, linear, loads, variables
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import Block, Check, Delocal, Kind, Local, Node, Region, Var, Within
from retrograd.compiler.ir.traversal import map_children
from retrograd.isa.diagnostics import Span

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
