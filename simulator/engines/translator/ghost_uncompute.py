"""Ghost uncompute: translated code restores the words that a compute block changed, and skips the uncompute block.

    compute; body; compute⁻¹        before compute: keep its registers and the regions that it stores to
                                    at compute⁻¹:   put them back, account for its steps, go on behind it

Correct because compute⁻¹ leads from the state after compute to the state before it, so it is enough that the body keeps the words
that compute reads or writes. Translated code checks this in each run:

- Registers: the registers that compute names are compared with their words at its end. LLVM proves most of these comparisons.
- Memory: an access of compute, or a store that may run before the uncompute block, has a region, and sets `strayed` where its
  address is outside. A store whose region, if it has one, is also one of compute's makes compute's end forgotten (`armed`).
- Zeros: in a region that is too large to be copied, the words that compute has stored to are cleared. Each of them is
  compared with zero before the store, and lies right behind the one before, as on a stack.
- Deferred checks: none is pending. Steps: as many are left as a stretch without a safepoint takes. Then the skipped block
  would not have stopped either, and its guards would have held, since sums that fitted are undone.

Where a condition fails, the function returns before the uncompute block (Exit.UNCOMPUTE), and the interpreter executes it. The
program then runs without ghosts (`disable_ghosts`). The steps, the cycles and the counts of the skipped block are those of compute, because
each of its instructions is the inverse of one of compute's. Cycles of an overlapped core also depend on the instruction behind, so a batch
that counts them has no ghosts.

Differentiating code has no ghosts: cotangents are not restored by an uncompute block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from retrograd.isa.program import Hints, Program
from retrograd.simulator.engines.llvm.builder import (
    I1,
    I8,
    I64,
    POINTER,
    VOID,
    Block,
    FunctionBuilder,
    Pointer,
    Type,
    Value,
)
from retrograd.simulator.engines.state import Exit
from retrograd.simulator.engines.translator.flow import (
    Flow,
    Mirror,
    Node,
    Region,
    Variant,
    has_address,
    meet,
    registers,
    written,
)

T = TypeVar("T")

#: programs whose uncompute blocks had to be executed once, all of them or those that clear regions: (code, hints)
_given_up: set[tuple[tuple[int, ...], Hints]] = set()
_not_cleared: set[tuple[tuple[int, ...], Hints]] = set()
#: of all programs without pairs, so that their code has one key
_NO_HINTS = Hints()


def ghosts_of(program: Program) -> Hints | None:
    """The hints at the program's uncompute blocks, if they are skipped."""
    if _given_up and (tuple(program.code), program.hints) in _given_up:
        return None
    return program.hints if program.hints.pairs else _NO_HINTS


def clears(program: Program) -> bool:
    """Whether skipped blocks of the program may clear regions that are too large to be copied."""
    return not _not_cleared or (tuple(program.code), program.hints) not in _not_cleared


def disable_ghosts(program: Program, flow: Flow | None = None) -> None:
    """Execute the uncompute blocks of the program from now on; where `flow` clears regions, only its blocks that do."""
    some = flow is not None and any(map(flow.cleared_regions, flow.ghosts))
    (_not_cleared if some else _given_up).add((tuple(program.code), program.hints))


class Translation(Protocol):
    """The parts of a translator (translate.py) that ghosts read and write."""

    flow: Flow
    variant: Variant
    code: FunctionBuilder
    stored: Type
    given: dict[str, Value]
    memories: dict[str, Pointer]
    blocks: Mapping[Node, Block]
    left: Pointer
    cycles: Pointer
    longest: int
    fails: bool

    def _leave(self, why: Exit, at: int) -> None: ...

    def _variables(self, slot: str) -> list[Pointer]: ...

    def _compared(self, slot: str, nodes: list[Node]) -> int: ...

    def _in_all(self, truth: Value) -> Value: ...

    def _pending(self) -> Value: ...


class GhostUncompute:
    """Emits the beginning and the end of compute blocks, and the code that replaces uncompute blocks, into a translation."""

    def __init__(self, translator: Translation) -> None:
        self._to = translator
        flow = self._flow = translator.flow
        self._skipped = {g.undo: g for g in flow.ghosts}
        self._starts: dict[int, list[Mirror]] = {}
        self._ends: dict[int, list[Mirror]] = {}
        for ghost in flow.ghosts:
            self._starts.setdefault(ghost.start, []).append(ghost)
            self._ends.setdefault(ghost.end, []).append(ghost)
        code = flow.code
        inside = {g: range(g.start, g.end) for g in flow.ghosts}
        self._registers = {g: sorted({r for at in inside[g] for r in registers(code[at])}) for g in flow.ghosts}
        self._written = {g: sorted({r for at in inside[g] for r in written(code[at])}) for g in flow.ghosts}
        self._copied = {g: flow.copied_regions(g) for g in flow.ghosts}
        self._cleared = {g: flow.cleared_regions(g) for g in flow.ghosts}
        #: address of a store -> the regions that it puts words into, and that are cleared
        self._tracked: dict[int, list[tuple[Mirror, Region]]] = {}
        for ghost in flow.ghosts:
            for at in range(ghost.start, ghost.end):
                region = flow.regions.get(at)
                if "m" in code[at].opcode.writes and region in self._cleared[ghost]:
                    assert region is not None
                    self._tracked.setdefault(at, []).append((ghost, region))
        #: address of an access -> the region in which it must lie, and which lies in memory
        self.expected: dict[int, Region] = {}
        #: address of a store, or of a skipped block that puts words back -> compute blocks that are forgotten there
        self._forgotten: dict[int, list[Mirror]] = {}
        for ghost in flow.ghosts:
            self._find_checks(ghost)
        self._strays: list[Value] = []

    def _find_checks(self, ghost: Mirror) -> None:
        flow = self._flow
        own = {at: flow.regions.get(at) for at in range(ghost.start, ghost.end) if has_address(flow.code[at])}
        used = {region for region in own.values() if region is not None}
        stores = flow.stores_between(ghost)
        for at, region in own.items():
            if region is not None and (stores or "m" in flow.code[at].opcode.writes):
                self.expected[at] = region
        for at in stores if own else ():
            regions = flow.stored_regions(self._skipped[at]) if at in self._skipped else {flow.regions.get(at)}
            if (
                None in regions
                or None in own.values()
                or any(meet(x, y) for x in regions if x is not None for y in used)
            ):
                self._forgotten.setdefault(at, []).append(ghost)
            elif at not in self._skipped:
                self.expected[at] = flow.regions[at]

    # ------------------------------------------------------------------ the function

    def begin(self) -> None:
        """The variables of the function."""
        to, code = self._to, self._to.code
        self.strayed = code.variable(I1, "strayed", 0)
        self._armed = {g: code.variable(I1, "armed", 0) for g in self._flow.ghosts}
        self._left = {g: code.variable(I64, "ghost.left", 0) for g in self._flow.ghosts}
        self._cycles = {g: code.variable(I64, "ghost.cycles", 0) for g in self._flow.ghosts}
        self._before = {(g, r): self._copies(f"before.r{r}", r) for g in self._flow.ghosts for r in self._written[g]}
        self._after = {(g, r): self._copies(f"after.r{r}", r) for g in self._flow.ghosts for r in self._registers[g]}
        self._words: dict[tuple[Mirror, Region], Pointer] = {}
        for g in self._flow.ghosts:
            for region in self._copied[g]:
                self._words[g, region] = code.variable(to.stored, "region", count=region[1])
        #: the words of a cleared region that compute has stored to: their number, and the address behind the last one
        self._range = {
            (g, region): (code.variable(I64, "pushed", 0), code.variable(I64, "end", 0))
            for g in self._flow.ghosts
            for region in self._cleared[g]
        }
        if to.variant.whole:
            self._counts = {k: code.variable(I64, "ghost.count", 0) for k, _, _ in self._flow.counted_twice}
        stored = (*self._copied.values(), *self._cleared.values())
        regions = {*self.expected.values(), *(region for found in stored for region in found)}
        end = max((base + size for base, size in regions), default=0)
        if end:
            with code.unless(code.constant(I64, end).leu(to.given["n"]), "small"):
                to._leave(Exit.UNCOMPUTE, next(iter(self._flow.blocks))[0])

    def _copies(self, name: str, register: int) -> list[Pointer]:
        """Variables for the words that a register's variables hold at some moment."""
        variables = self._to._variables(f"r{register}")
        return [self._to.code.variable(v.element, name, 0) for v in variables]

    def _keep(self, copies: list[Pointer], register: int) -> None:
        for copy, variable in zip(copies, self._to._variables(f"r{register}"), strict=True):
            copy.store(variable.load())

    def _same(self, ghost: Mirror, register: int) -> Value:
        """Whether the register has the word that it had at the end of the compute block."""
        to, slot = self._to, f"r{register}"
        which = to._compared(slot, [(ghost.end, False), (ghost.undo, False)])
        return to._in_all(self._after[ghost, register][which].load().eq(to._variables(slot)[which].load()))

    def skips(self, node: Node) -> bool:
        """At the beginning of a node. True where it is an uncompute block, which is then behind."""
        if node[1]:
            return False
        for ghost in self._ends.get(node[0], ()):
            self._end(ghost)
        for ghost in sorted(self._starts.get(node[0], ()), key=lambda g: g.start - g.end):
            self._start(ghost)
        found = self._skipped.get(node[0])
        if found is not None:
            self._skip(found)
        return found is not None

    def _start(self, ghost: Mirror) -> None:
        to = self._to
        self._armed[ghost].store(0)
        self._left[ghost].store(to.left.load())
        if to.variant.cycles:
            self._cycles[ghost].store(to.cycles.load())
        for r in self._written[ghost]:
            self._keep(self._before[ghost, r], r)
        for region in self._copied[ghost]:
            self._copy(to.memories["m"][region[0]], self._words[ghost, region], region[1])
        for region in self._cleared[ghost]:
            for variable in self._range[ghost, region]:
                variable.store(0)
        for counter, source, twice in self._flow.counted_twice:
            if twice == ghost and to.variant.whole:
                self._counts[counter].store(self._count(source).load())

    def _end(self, ghost: Mirror) -> None:
        to = self._to
        self._armed[ghost].store(1)
        self._left[ghost].store(self._left[ghost].load() - to.left.load())
        if to.variant.cycles:
            self._cycles[ghost].store(to.cycles.load() - self._cycles[ghost].load())
        for r in self._registers[ghost]:
            self._keep(self._after[ghost, r], r)
        for counter, source, twice in self._flow.counted_twice:
            if twice == ghost and to.variant.whole:
                self._counts[counter].store(self._count(source).load() - self._counts[counter].load())

    def _skip(self, ghost: Mirror) -> None:
        to, code = self._to, self._to.code
        left = to.left.load() - self._left[ghost].load()
        brief = left.lt(to.longest)
        if to.fails:
            brief = brief | to._pending()
        with code.when(brief, "brief", likely=False):
            to._leave(Exit.LIMIT, ghost.undo)
        same = [self._same(ghost, r) for r in self._registers[ghost]]
        holds = code.all([self._armed[ghost].load(), ~self.strayed.load(), *same])
        with code.unless(holds, "execute"):
            to._leave(Exit.UNCOMPUTE, ghost.undo)
        to.left.store(left)
        if to.variant.cycles:
            to.cycles.add(self._cycles[ghost].load())
        for r in self._written[ghost]:
            for copy, variable in zip(self._before[ghost, r], to._variables(f"r{r}"), strict=True):
                variable.store(copy.load())
        for region in self._cleared[ghost]:
            self._clear(ghost, region)
        for region in self._copied[ghost]:
            self._copy(self._words[ghost, region], to.memories["m"][region[0]], region[1])
        for counter, _, twice in self._flow.counted_twice:
            if twice == ghost and to.variant.whole:
                self._count(counter).add(self._counts[counter].load())
        self._armed[ghost].store(0)
        self.forget(ghost.undo)
        code.jump(to.blocks[ghost.after, False])

    def _count(self, counter: int) -> Pointer:
        return self._to.given["counts"].of(I64)[counter]

    def _copy(self, source: Pointer, target: Pointer, words: int) -> None:
        code, size = self._to.code, self._to.stored.bits // 8 * self._to.stored.lanes
        copy = code.module.declare("llvm.memcpy.p0.p0.i64", VOID, POINTER, POINTER, I64, I1, pure=False)
        code.call(copy, Value(code, POINTER, target.name), Value(code, POINTER, source.name), size * words, 0)

    def _clear(self, ghost: Mirror, region: Region) -> None:
        """Zeros in all words of the region that compute has stored to."""
        to, code = self._to, self._to.code
        count, end = (x.load() for x in self._range[ghost, region])
        size = to.stored.bits // 8 * to.stored.lanes
        fill = code.module.declare("llvm.memset.p0.i64", VOID, POINTER, I8, I64, I1, pure=False)
        code.call(fill, Value(code, POINTER, to.memories["m"][end - count].name), 0, count * size, 0)

    # ------------------------------------------------------------------ accesses

    def track(self, at: int, address: Value, word: Value) -> None:
        """At a store to a cleared region: the word is zero, and lies right behind the last one."""
        for key in self._tracked.get(at, ()):
            count, end = self._range[key]
            self._strays += [end.load().ne(0) & end.load().ne(address), word.ne(0)]
            count.add(1)
            end.store(address + 1)

    def check(self, at: int, address: Value) -> None:
        """The check that an access lies in its region."""
        region = self.expected.get(at)
        if region is not None:
            inside = (address - region[0]).ltu(region[1])
            self._strays.append(~self._to._in_all(inside))

    def regions_in(self, accesses: Mapping[int, tuple[T, int]]) -> set[tuple[T, Region]]:
        """Of accesses, each with (base, offset): the regions in which words of a base must lie."""
        return {(word[0], self.expected[at]) for at, word in accesses.items() if at in self.expected}

    def forget(self, at: int) -> None:
        """At a store: compute blocks whose words it may change."""
        for ghost in self._forgotten.get(at, ()):
            self._armed[ghost].store(0)

    def flush(self) -> None:
        """Record the checks of a block."""
        if self._strays:
            self.strayed.store(self._to.code.any([self.strayed.load(), *self._strays]))
            self._strays.clear()
