"""A loop inside an instance of a batch, on several threads of a device: the team of the instance.

    pass p:   (registers X + (p − 1)·D, words S)  →  (registers X + p·D, words S)   and adds to other words

All threads of a team execute the same code on memories of their own, so all have the same state. At the end of a loop's
first pass its registers X and their changes D are known; from there on thread t of T executes the passes 1 + t,
1 + t + T, … A thread begins each pass with the state of the formula, and tests at the pass's end that the formula holds
there; S are the words of the regions to which a pass stores. By induction, the passes are those of one thread.

A pass only adds to the words of other regions and to some registers, and does not read them: a property of the code.
They begin as zeros in all threads but one. At the end of the loop, the threads exchange them and add them up. Sums of
integers do not depend on their order. A team of more than a warp is a block: its warps exchange sums in shared memory.

Trap: a partial sum in the program's order may overflow where the partial sums of the threads do not. Magnitudes of all
terms are added up, too, and the loop fails if a partial sum in some order could leave a word.
Where a test fails, all threads of the team leave, and the instance is run once more with `parallel` = 0: every thread
then executes all passes. Regions are those of the compiler's hints. Each access tests its region while loops are
divided, so a wrong hint costs time and changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from typing import Literal

from retrograd.isa.encoding import Instruction
from retrograd.isa.entries import REGISTER_FIELDS
from retrograd.isa.expr import const, place
from retrograd.isa.folds import sum_tested_by
from retrograd.isa.program import MAX_DATA, Hints, Program
from retrograd.isa.table import Table
from retrograd.isa.words import Format
from retrograd.simulator.engines.batch.layout import Range
from retrograd.simulator.engines.batch.loops import WARP
from retrograd.simulator.engines.llvm.builder import (
    I1,
    I32,
    I64,
    SHARED,
    VOID,
    Block,
    Callee,
    FunctionBuilder,
    ModuleBuilder,
    Pointer,
    Type,
    Value,
    pointer,
    storage,
)
from retrograd.simulator.engines.llvm.instructions import Step, step_of
from retrograd.simulator.engines.state import Exit
from retrograd.simulator.engines.translator.affine import AffineForms
from retrograd.simulator.engines.translator.flow import Flow, Node, Refusal, Variant, flow_of, register, written
from retrograd.simulator.engines.translator.loop_summary import CALLS, LoopSummary, nested_loops, without_calls
from retrograd.simulator.engines.translator.translate import Translator

#: passes behind the first one from which on a loop is divided
FEW_PASSES = 2
#: passes from which on a program has a kernel of teams
WORTH = 8
#: passes up to which a loop is divided; words that a loop stores to and restores
MOST_PASSES, MOST_RESTORED = 1 << 31, 1 << 12
#: a pass fails that takes more steps than the first one by a factor and a summand
LONGER, LONGEST = 1 << 6, 1 << 16
NO_FLOOR = -1 << 62
#: passes of a loop beyond which its length does not matter
LONG = 1 << 10
#: passes for each thread of a warp, where their number is not known
GUESSED = WARP + 1
#: words of regions to which a procedure may store, that has no hint at which
MOST_GUESSED = 1 << 8
#: the most threads of a team: those of a block
MOST_TEAM = 1024
#: words of a memory, times threads of a team, up to which a team is more than a warp: each thread fills a memory
MOST_COPIED = 1 << 17
#: bits of the sum of magnitudes in a thread: those of all threads of a team, and twice that, fit 64 bits
_MASS = 52

#: what an access does with its word: it adds a term that does not depend on the word, only reads it, or stores to it
Access = Literal["adds", "reads", "stores"]


@dataclass(frozen=True)
class TeamLoop:
    """A loop whose passes the threads of a team share."""

    #: the branch where the loop is entered, the same where its closing branch lands, and the node behind the loop
    entry: Node
    landing: Node
    closing: Node
    leave: Node
    #: everything that a pass may execute, procedures included
    nodes: frozenset[Node]
    #: registers that a pass writes; registers that it only adds to, and the addresses where it does
    registers: tuple[int, ...]
    sums: tuple[int, ...]
    sum_sites: frozenset[int]
    #: words that passes only add to; words that each pass leaves as it has found them
    added: tuple[Range, ...]
    restored: tuple[Range, ...]
    #: address of an access -> the region in which it must lie, of those with a hint
    regions: Mapping[int, Range]
    accesses: Mapping[int, Access]
    #: the number of passes, at most LONG; GUESSED where words of the run decide
    length: int

    @property
    def words(self) -> int:
        """Words behind a thread's memory: registers and their changes, and the words before the passes."""
        return 2 * len(self.registers) + sum(size for _, size in self.restored)


def team_loops(program: Program, *, backward: bool = False) -> tuple[TeamLoop, ...]:
    """The loops of a program that a team of threads executes."""
    return _known_loops(program.code, program.format, program.table, program.hints, backward)


@lru_cache(64)
def _known_loops(code: tuple[int, ...], w: Format, table: Table, hints: Hints, backward: bool) -> tuple[TeamLoop, ...]:
    program = Program(code, format=w, table=table)
    return _loops(flow_of(program, Variant(backward=backward, whole=False, device=True)), hints)


def words_of_team(program: Program, backward: bool) -> int:
    """The words behind the memory, and its spare word, of each thread of a team."""
    return max((loop.words for loop in team_loops(program, backward=backward)), default=0)


def most_threads(program: Program, backward: bool) -> int:
    """The threads of a team that have a pass each of the longest loop, without its first pass: a power of two.

    Up to a warp, or a block where the memories of all threads have at most MOST_COPIED words. 1 without a loop of
    WORTH passes that can be divided.
    """
    passes = max((loop.length for loop in team_loops(program, backward=backward)), default=0)
    most = max(WARP, min(MOST_TEAM, MOST_COPIED // (program.memory + 1)))
    return 1 if passes < WORTH else 1 << min(most.bit_length(), (passes - 1).bit_length()) - 1


def _loops(flow: Flow, hints: Hints) -> tuple[TeamLoop, ...]:
    w = flow.program.format
    if storage(w).bits != w.width or not hints.accesses:
        return ()
    edges = without_calls(flow)
    constants = _constants(flow, edges)

    def chosen(guessed: bool) -> tuple[TeamLoop, ...]:
        out: list[TeamLoop] = []
        for loop in nested_loops(flow)[:: -1 if guessed else 1]:
            if not any(loop.nodes & found.nodes for found in out):
                try:
                    out.append(_Analysis(flow, hints, loop, edges, constants, guessed).loop)
                except Refusal:
                    continue
        return tuple(out)

    # The steps of a simulation are as many as an argument says, and depend on each other: loops in a step come first.
    found = chosen(guessed=False)
    return found if any(loop.length >= WORTH for loop in found) else chosen(guessed=True) or found


class _Analysis:
    """Raises Refusal where a team cannot execute the loop."""

    def __init__(
        self,
        flow: Flow,
        hints: Hints,
        loop: LoopSummary,
        edges: Mapping[Node, list[Node]],
        constants: Mapping[Node, Mapping[int, int]],
        guessed: bool,
    ) -> None:
        self.flow, self.forms = flow, AffineForms(flow.program.format)
        landings = [n for n in loop.nodes if n[1] and (n[0], False) in flow.blocks and (n[0], False) not in loop.nodes]
        if len(landings) != 1:
            raise Refusal("it is entered in several places")
        self.landing = landings[0]
        closings = [node for node in loop.nodes if self.landing in edges[node]]
        if len(closings) != 1 or closings[0][1] or flow.code[closings[0][0]].opcode.turns:
            raise Refusal("it is closed in several places")
        (self.closing,) = closings
        leave = flow.after(self.closing[0])
        if leave is None or leave in loop.nodes:
            raise Refusal("it does not end behind its closing branch")
        self.nodes = self._executed(loop.nodes, edges)
        if leave in self.nodes or (self.landing[0], False) in self.nodes:
            raise Refusal("it is a part of a procedure that it calls")
        addresses = sorted({at for node in self.nodes for at in flow.blocks[node]})
        self.steps = {at: step_of(flow.code[at], flow.program.format) for at in addresses}
        length = self._length(loop, constants, guessed)
        if length is None:
            raise Refusal("its length depends on words of the run")
        if any(found.unerases or found.drops for found in self.steps.values()):
            raise Refusal("a lost word would have to come back")
        accesses: dict[int, Access] = {at: self._access(at) for at in addresses if self.steps[at].memory}
        regions, added, restored = self._regions(hints, accesses)
        changed = {r for at in addresses for r in written(flow.code[at])}
        sums = {r: sites for r in sorted(changed) if (sites := self._sites(r)) is not None}
        if not (added or sums):
            raise Refusal("its passes add to nothing")
        if sum(size for _, size in restored) > MOST_RESTORED:
            raise Refusal("its passes store to too many words")
        self.loop = TeamLoop(
            (self.landing[0], False), self.landing, self.closing, leave, frozenset(self.nodes),
            tuple(sorted(changed - sums.keys())), tuple(sums), frozenset(chain(*sums.values())),
            _joined(added), _joined(restored), regions, accesses, length,
        )  # fmt: skip

    def _executed(self, loop: Collection[Node], edges: Mapping[Node, list[Node]]) -> set[Node]:
        """The nodes of the loop and of the procedures that it calls."""
        found = set(loop)
        todo = list(found)
        while todo:
            node = todo.pop()
            if node in loop and (node[1] or self.flow.code[node[0]].opcode.name not in CALLS):
                continue
            new = [to for to in edges[node] if to not in found]
            found.update(new)
            todo += new
        return found

    def _length(self, loop: LoopSummary, constants: Mapping[Node, Mapping[int, int]], guessed: bool) -> int | None:
        """The number of passes, if the registers of the closing branch change by constants and begin as constants.

        `guessed`: GUESSED if they begin as words of the run, and else None.
        """
        own = loop.nodes.difference(*(inner.nodes for inner in loop.inner))
        at, known = self.closing[0], constants.get((self.landing[0], False), {})
        words, by = {}, {}
        for where, r in _named(self.flow.code[at]).items():
            sites = [one for node in self.nodes for one in self.flow.blocks[node] if r in written(self.flow.code[one])]
            inside = {one for node in own for one in self.flow.blocks[node]}
            terms = [_constant_term(self.flow.code[one], self.steps[one], r, self.forms) for one in sites]
            if None in terms or not inside.issuperset(sites):
                return None
            by[where] = sum(filter(None, terms))
            if r in known:
                words[where] = known[r]
        if guessed or words.keys() < by.keys():
            return GUESSED if guessed and words.keys() < by.keys() else None
        tree, goes = self.steps[at].after["br"], self.landing[0] - at
        given = {"imm": self.flow.code[at].imm, "br": 0}
        for passes in range(1, LONG):
            words = {where: word + by[where] for where, word in words.items()}
            jump = self.forms.normal(
                tree, {name: const(self.forms.w.signed(word)) for name, word in (words | given).items()}
            )
            if jump is not const(goes):
                return passes
        return LONG

    # ------------------------------------------------------------------ memory

    def _access(self, at: int) -> Access:
        found = self.steps[at]
        if self._only_adds(found, "m"):
            return "adds"
        return "stores" if "m" in found.after else "reads"

    def _only_adds(self, found: Step, where: str) -> bool:
        """Whether an instruction adds a term to a word, and depends on that word in no other way."""
        tree = found.after.get(where)
        if tree is None or where in {*found.erases, *found.drops, *found.unerases}:
            return False
        names = {name: place(name) for name in tree.inputs}
        term = self.forms.sum(self.forms.normal(tree, names), place(where), -1)
        if where in term.inputs or any(where in other.inputs for p, other in found.after.items() if p != where):
            return False
        guards = chain.from_iterable(found.guards.values())
        return all(where not in guard.inputs or sum_tested_by(guard) is tree for guard in guards)

    def _regions(
        self, hints: Hints, accesses: Mapping[int, Access]
    ) -> tuple[dict[int, Range], list[Range], list[Range]]:
        """(address of an access -> its region, regions whose words are added to, regions whose words are stored to)"""
        flow = self.flow
        hinted = {
            one: (base, size)
            for at, base, size in hints.accesses
            if 0 <= at < flow.length and 0 <= base < base + size <= MAX_DATA
            for one in (at, flow.mirror(at))
        }
        whole = _overlapping({hinted[at] for at in accesses if at in hinted})
        found = {at: whole[hinted[at]] for at in accesses if at in hinted}
        kinds: dict[Range, set[Access]] = {}
        for at, region in found.items():
            kinds.setdefault(region, set()).add(accesses[at])
        added = [region for region, kind in kinds.items() if kind == {"adds"}]
        restored = [region for region, kind in kinds.items() if kind != {"reads"} and region not in added]
        if any(accesses[at] != "reads" for at in accesses if at not in found):
            # A procedure stores to an array of its caller, most likely to a small one.
            left = MOST_GUESSED
            for region in sorted((region for region, kind in kinds.items() if kind == {"reads"}), key=lambda r: r[1]):
                left -= region[1]
                restored += [region] * (left >= 0)
        return found, added, restored

    # ------------------------------------------------------------------ registers

    def _sites(self, r: int) -> set[int] | None:
        """Where a pass adds to the word that register r holds at its beginning; None if it uses that word otherwise."""
        holders: dict[Node, int] = {self.landing: r}
        todo, sites = [self.landing], set[int]()
        while todo:
            node = todo.pop()
            holder: int | None = holders[node]
            for at in self.flow.blocks[node]:
                assert holder is not None
                holder = self._holder(at, holder, sites)
                if holder is None:
                    return None
            assert holder is not None
            for to in self.flow.successors[node]:
                if node == self.closing and holder != r:
                    return None
                if to not in self.nodes:
                    continue
                if to not in holders:
                    holders[to] = holder
                    todo.append(to)
                elif holders[to] != holder:
                    return None
        return sites

    def _holder(self, at: int, holder: int, sites: set[int]) -> int | None:
        """The register that holds the word behind an instruction; None where the instruction reads it."""
        i, found = self.flow.code[at], self.steps[at]
        named = _named(i)
        held = [p for p, r in named.items() if r == holder]
        if not held:
            return holder
        if found.after == {"d": place("a"), "a": place("d")} and len(held) == 1:
            return named["a" if held == ["d"] else "d"]
        if held == ["d"] and self._only_adds(found, "d"):
            sites.add(at)
            return holder
        return None


def _constant_term(i: Instruction, found: Step, r: int, forms: AffineForms) -> int | None:
    """The constant that an instruction adds to register r, its only result; None if it does something else."""
    if set(found.after) != {"d"} or _named(i).get("d") != r or found.memory:
        return None
    names = {name: const(i.imm) if name == "imm" else place(name) for name in found.after["d"].inputs}
    term = forms.sum(forms.normal(found.after["d"], names), place("d"), -1)
    return term.param if term.op == "const" and isinstance(term.param, int) else None


def _constants(flow: Flow, edges: Mapping[Node, list[Node]]) -> dict[Node, dict[int, int]]:
    """The registers that hold a constant at the beginning of each node; all begin as zeros.

    A guess, for lengths of loops: a procedure is taken to leave registers as they are.
    """
    w, forms = flow.program.format, AffineForms(flow.program.format)
    used = {r for run in flow.blocks.values() for at in run for r in _named(flow.code[at]).values()}
    found: dict[Node, dict[int, int]] = {(flow.origin, False): dict.fromkeys(used, 0)}
    todo = list(found)
    while todo:
        node = todo.pop()
        known = dict(found[node])
        for at in flow.blocks[node]:
            i, step = flow.code[at], step_of(flow.code[at], w)
            named = _named(i)
            words = {name: const(known[r]) for name, r in named.items() if r in known} | {"imm": const(w.signed(i.imm))}
            after = {
                named[p]: forms.normal(tree, words) if tree.inputs <= words.keys() else None
                for p, tree in step.after.items()
                if p in named
            }
            for r, word in after.items():
                known.pop(r, None)
                if word is not None and word.op == "const" and isinstance(word.param, int):
                    known[r] = word.param
        for to in edges[node]:
            before = found.get(to)
            joined = known if before is None else {r: c for r, c in before.items() if known.get(r) == c}
            if before != joined:
                found[to] = dict(joined)
                todo.append(to)
    return found


def _named(i: Instruction) -> dict[str, int]:
    """place -> the register that an instruction names there"""
    return {p: getattr(i, field) for p, field in REGISTER_FIELDS.items() if field in i.opcode.fields}


def _overlapping(ranges: Collection[Range]) -> dict[Range, Range]:
    """Each range -> the union of the ranges that overlap with it, directly or through others."""
    out: dict[Range, Range] = {}
    group: list[Range] = []
    end = 0

    def close() -> None:
        out.update(dict.fromkeys(group, (group[0][0], end - group[0][0])))

    for found in sorted(ranges):
        if group and found[0] >= end:
            close()
            group = []
        group.append(found)
        end = max(end, sum(found)) if len(group) > 1 else sum(found)
    if group:
        close()
    return out


def _joined(ranges: Collection[Range]) -> tuple[Range, ...]:
    """The ranges, in the order of their addresses; neighbours are one range."""
    out: list[Range] = []
    for base, size in sorted(ranges):
        if out and sum(out[-1]) == base:
            out[-1] = out[-1][0], out[-1][1] + size
        else:
            out.append((base, size))
    return tuple(out)


# ---------------------------------------------------------------- code


@dataclass
class _State:
    """Variables of a loop: whether its passes were to be divided since it was entered, and its blocks."""

    tried: Pointer
    join: Block


class TeamTranslator(Translator):
    """Emits the function of a program for a thread of a team, with the parameters of `translate` and

    lane, team, parallel       the thread's number mod MOST_TEAM, the threads of its team, and whether it divides loops
    """

    def __init__(self, flow: Flow, variant: Variant, module: ModuleBuilder, name: str) -> None:
        super().__init__(flow, variant, module, name)
        assert variant.team is not None
        self.teams = _loops(flow, variant.team)
        self.regions = {at: region for loop in self.teams for at, region in loop.regions.items()}
        self.inside_of = {node for loop in self.teams for node in loop.nodes}
        self.sum_sites = {at for loop in self.teams for at in loop.sum_sites}
        self.at = -1
        self.here: Node | None = None
        self.fails = True

    def _parameters(self) -> dict[str, Type]:
        return super()._parameters() | {"lane": I64, "team": I64, "parallel": I64}

    def _begin(self) -> None:
        super()._begin()
        code = self.code
        #: number of the loop whose passes this thread executes, from 1; 0 where the threads of the team do the same
        self.within = code.variable(I64, "within", 0)
        #: of that loop: this pass, and the last one; steps left before; magnitudes of all terms
        self.number, self.passes = code.variable(I64, "number", 0), code.variable(I64, "passes", 0)
        self.left_then, self.mass = code.variable(I64, "left.then", 0), code.variable(I64, "mass", 0)
        self.failed_lane = code.variable(I1, "failed", 0)
        #: steps left in front of the loop; steps left below which a pass has gone astray
        self.left_before_loop, self.floor = code.variable(I64, "left.enter", 0), code.variable(I64, "floor", NO_FLOOR)
        self.fail, self.give_up = code.block("lane.fails"), code.block("team.fails")
        self.states = [_State(code.variable(I64, "tried", 1), code.block("join")) for _ in self.teams]
        hooks: dict[Node, list[Callable[[], None]]] = {}
        for k, loop in enumerate(self.teams):
            hooks.setdefault(loop.landing, []).append(partial(self._landed, k, loop))
            hooks.setdefault(loop.leave, []).insert(0, partial(self._left, k, loop))
            beside = {to for node in loop.nodes for to in self.flow.successors[node]} - loop.nodes - {loop.leave}
            for node in sorted(beside):
                hooks.setdefault(node, []).insert(0, partial(self._astray, k))
            hooks.setdefault(loop.entry, []).append(partial(self._enter, k, loop))
        self.hooks = hooks
        end = max((sum(region) for region in self.regions.values()), default=0)
        with code.when(self.given["parallel"].ne(0) & self.given["n"].ltu(end), "short", likely=False):
            # A hint lies beyond the memory.
            self._leave(Exit.REFUSED, 0)

    def _end(self) -> None:
        super()._end()
        code = self.code
        code.start(self.fail)
        self.failed_lane.store(1)
        code.switch(self.within.load(), self.exit, [(k, state.join) for k, state in enumerate(self.states, 1)])
        for k, loop in enumerate(self.teams):
            self._join(k, loop)
        code.start(self.give_up)
        self.node.store(0)
        self.why.store(Exit.REFUSED)
        code.jump(self.exit)

    def _block(self, index: int, node: Node, run: list[int]) -> None:
        self.here = node
        super()._block(index, node, run)

    def _loops_begin(self, node: Node) -> None:
        for hook in self.hooks.get(node, ()):
            hook()

    def _leave(self, why: Exit, at: int) -> None:
        if self.here in self.inside_of:
            out = self.code.block("leave")
            self.code.branch(self.within.load().eq(0), out, self.fail)
            self.code.start(out)
        super()._leave(why, at)

    def _safepoint(self, node: Node) -> None:
        super()._safepoint(node)
        if node in self.inside_of:
            on = self.code.block("team.runs")
            self.code.branch(self.left.load().lt(self.floor.load()), self.fail, on, likely=False)
            self.code.start(on)

    # ------------------------------------------------------------------ words and registers

    def _behind(self, k: int | Value) -> Pointer:
        """A word behind the memory of this thread."""
        at = self.given["n"] + 1 + k if isinstance(k, int) else self.given["n"] + k + 1
        return self.memories["m"][at * self.given["stride"]]

    def _memory(self, address: Value | int) -> Pointer:
        at = address if isinstance(address, Value) else self.code.constant(I64, address)
        return self.memories["m"][at * self.given["stride"]]

    def _rank(self) -> Value:
        """The number of this thread in its team."""
        return self.given["lane"] & (self.given["team"] - 1)

    def _expected(self, loop: TeamLoop, k: int, passes: Value) -> Value:
        """The k-th register of a loop behind a number of passes after the first one."""
        first, by = self._behind(2 * k).load(), self._behind(2 * k + 1).load()
        return first + by * passes.to(self.stored)

    def _words_of(self, ranges: Sequence[Range], each: Callable[[Value, Value], None]) -> None:
        """Emit a loop over the words of ranges: their addresses, and their numbers."""
        before = 0
        for base, size in ranges:
            with self.code.loop(self.code.constant(I64, size), "words") as j:
                each(j + base, j + before)
            before += size

    # ------------------------------------------------------------------ accesses

    def _address(self, i: Instruction) -> None:
        region = self.regions.get(self.at)
        if region is None:
            super()._address(i)
        else:
            address = self.unchecked = (self._read(register(i.ra)) + i.imm).to(I64)
            strict, (base, size) = self.given["parallel"].ne(0), map(partial(self.code.constant, I64), region)
            inside = (address - strict.select(base, 0)).ltu(strict.select(size, self.given["n"]))
            self._check(inside)
            self.address = inside.select(address, self.given["n"]) * self.given["stride"]
        for k, loop in enumerate(self.teams, 1):
            access = loop.accesses.get(self.at)
            if access is not None and self.at not in loop.regions:
                added = self._lies_in(loop.added)
                holds = ~added if access == "reads" else self._lies_in(loop.restored)
                holds = holds | added if access == "adds" else holds
                self._check(holds | self.within.load().ne(k))

    def _lies_in(self, ranges: Sequence[Range]) -> Value:
        return self.code.any((self.unchecked - base).ltu(size) for base, size in ranges)

    def _set(self, i: Instruction, place: str, value: Value) -> None:
        if place == "m":
            for loop in self.teams:
                if loop.accesses.get(self.at) == "adds":
                    region = loop.regions.get(self.at)
                    if region is None or any(base <= region[0] < base + size for base, size in loop.added):
                        self._weigh(value - self._load("m"), self._lies_in(loop.added) if region is None else None)
        elif place == "d" and self.at in self.sum_sites:
            self._weigh(value - self._read(register(i.rd)), None)
        super()._set(i, place, value)

    def _weigh(self, term: Value, counts: Value | None) -> None:
        """Add the magnitude of a term."""
        wide = term.to(I64, "sext")
        size = wide.lt(0).select(-wide, wide)
        size = size if counts is None else counts.select(size, 0)
        self.mass.store(self.code.intrinsic("uadd.sat", self.mass.load(), size))

    # ------------------------------------------------------------------ loops

    def _enter(self, k: int, loop: TeamLoop) -> None:
        """In front of the first pass: keep the registers."""
        code = self.code
        divides = self.within.load().eq(0) & self.given["parallel"].ne(0)
        self.states[k].tried.store(divides.select(code.constant(I64, 0), 1))
        with code.when(divides, "keep"):
            self.left_before_loop.store(self.left.load())
            for j, r in enumerate(loop.registers):
                self._behind(2 * j).store(self.slots[register(r)].load())

    def _landed(self, k: int, loop: TeamLoop) -> None:
        """Behind a pass, where the loop goes on."""
        code, tried = self.code, self.states[k].tried
        names = ("team.behind", "team.other", "team.first", "team.divide", "team.next", "team.pass", "team.on", "alone")
        behind, other, first, divide, following, passing, onward, alone = map(code.block, names)
        code.branch(self.within.load().eq(k + 1), behind, other)
        code.start(other)
        code.branch(tried.load().ne(0), alone, first)
        code.start(first)
        tried.store(1)
        for j, r in enumerate(loop.registers):
            word = self.slots[register(r)].load()
            self._behind(2 * j + 1).store(word - self._behind(2 * j).load())
            self._behind(2 * j).store(word)
        self._count_passes(loop)
        passes = self.passes.load()
        code.branch(passes.geu(FEW_PASSES) & passes.ltu(MOST_PASSES), divide, alone)
        code.start(divide)
        start = 2 * len(loop.registers)
        self._words_of(loop.restored, lambda at, j: self._behind(j + start).store(self._memory(at).load()))
        with code.when(self._rank().ne(0), "zeros"):
            self._words_of(loop.added, lambda at, j: self._memory(at).store(0))
            for r in loop.sums:
                self.slots[register(r)].store(0)
            self.erased.store(0)
            self.cycles.store(0)
        self.left_then.store(self.left.load())
        self.mass.store(0)
        self.within.store(k + 1)
        self.number.store(self._rank() + 1)
        code.jump(following)
        code.start(behind)
        code.branch(self._holds(loop) & self.number.load().ltu(self.passes.load()), onward, self.fail)
        code.start(onward)
        self.number.add(self.given["team"])
        code.start(following)
        number = self.number.load()
        code.branch(number.gtu(self.passes.load()), self.states[k].join, passing)
        code.start(passing)
        # A state that the formula gives, and that the program never has, may begin a pass without end.
        taken = self.left_before_loop.load() - self.left_then.load()
        self.floor.store(self.left.load() - taken * LONGER - LONGEST)
        for j, r in enumerate(loop.registers):
            self.slots[register(r)].store(self._expected(loop, j, number - 1))
        code.start(alone)

    def _count_passes(self, loop: TeamLoop) -> None:
        """`passes` := the number of the last pass, by the closing branch over the registers behind each pass."""
        code, at = self.code, loop.closing[0]
        i, found = self.flow.code[at], self.steps[at]
        self.passes.store(1)
        head, more, over = map(code.block, ("passes", "passes.more", "passes.end"))
        code.start(head)
        p = self.passes.load()
        words = {"imm": code.constant(self.word, i.imm), "br": code.constant(self.word, 0)}
        for where, r in _named(i).items():
            if r in loop.registers:
                words[where] = self._expected(loop, loop.registers.index(r), p).to(self.word)
            else:
                words[where] = self.slots[register(r)].load().to(self.word)
        jump = self._trees(code, words, found).value(found.after["br"])
        goes = jump.to(I64, "sext").eq(loop.landing[0] - self.flow.leaves(at))
        code.branch(goes & p.ltu(MOST_PASSES), more, over)
        code.start(more)
        self.passes.store(p + 1)
        code.jump(head)
        code.start(over)

    def _holds(self, loop: TeamLoop) -> Value:
        """Whether registers and words behind this pass are as expected."""
        code, number = self.code, self.number.load()
        differs = code.variable(self.stored, "differs", 0)
        differs.store(0)

        def compare(found: Value, expected: Value) -> None:
            differs.store(differs.load() | (found ^ expected))

        for j, r in enumerate(loop.registers):
            compare(self.slots[register(r)].load(), self._expected(loop, j, number))
        start = 2 * len(loop.registers)
        self._words_of(loop.restored, lambda at, j: compare(self._memory(at).load(), self._behind(j + start).load()))
        return differs.load().eq(0)

    def _left(self, k: int, loop: TeamLoop) -> None:
        """Behind the last pass."""
        code = self.code
        last, on = code.block("team.last"), code.block("team.left")
        code.branch(self.within.load().eq(k + 1), last, on)
        code.start(last)
        holds = self._holds(loop) & self.number.load().eq(self.passes.load())
        code.branch(holds, self.states[k].join, self.fail)
        code.start(on)

    def _astray(self, k: int) -> None:
        """Where a pass leaves the loop in another way."""
        on = self.code.block("team.in")
        self.code.branch(self.within.load().eq(k + 1), self.fail, on)
        self.code.start(on)

    def _join(self, k: int, loop: TeamLoop) -> None:
        """All threads of the team are here: add up."""
        code = self.code
        code.start(self.states[k].join)
        self.within.store(0)
        self.floor.store(NO_FLOOR)
        self._meet()
        failed = (self.failed_lane.load() | self.bad.load()).to(I64)
        merge, done = code.block("merge"), code.block("merged")
        code.branch(self._total(failed).eq(0), merge, self.give_up)
        code.start(merge)
        # Rounded up to a multiple of 2^s, so that the sum over a warp fits 64 bits.
        s = max(0, self.w.width - _MASS)
        mass = self.mass.load().shr(s) + int(s > 0)
        mass = self._total(mass.gtu(1 << _MASS).select(code.constant(I64, 1 << _MASS), mass))
        large = code.variable(I64, "large", 0)
        large.store(0)

        def add(at: Pointer) -> None:
            total = self._total(at.load().to(I64, "sext")).to(self.stored)
            at.store(total)
            wide = total.to(I64, "sext")
            large.store(large.load() | (wide ^ wide.sar(63)))

        self._words_of(loop.added, lambda at, j: add(self._memory(at)))
        for r in loop.sums:
            add(self.slots[register(r)])
        for variable in (self.erased, self.cycles):
            variable.store(self._total(variable.load()))
        then = self.left_then.load()
        self.left.store(then + self._total(self.left.load() - then))
        passes = self.passes.load()
        for j, r in enumerate(loop.registers):
            self.slots[register(r)].store(self._expected(loop, j, passes))
        self.br.store(0)
        # |a sum before the passes| + mass ≥ each partial sum, in any order
        fits = (large.load().shr(s) + (mass << 1) + int(s > 0)).ltu(self.w.sign >> s)
        code.branch(fits & ~self.left.load().lt(self.longest), done, self.give_up)
        code.start(done)
        code.jump(self.blocks[loop.leave])

    # ------------------------------------------------------------------ threads

    def _members(self) -> Value:
        """The threads of this team in this warp, a bit for each."""
        code, team, lane = self.code, self.given["team"], self.given["lane"] & WARP - 1
        team = team.gtu(WARP).select(WARP, team)
        return (((code.constant(I64, 1) << team) - 1) << (lane & -team)).to(I32)

    def _meet(self) -> None:
        """Wait for the threads of the team, which may have parted."""
        self.code.call(self.module.declare("llvm.nvvm.bar.warp.sync", VOID, I32, pure=False), self._members())
        with self.code.when(self.given["team"].gtu(WARP), "block"):
            _wait_for_block(self.code)

    def _total(self, word: Value) -> Value:
        return self.code.call(_team_sum(self.module), word, self._members(), self.given["team"], self._rank())


def _wait_for_block(code: FunctionBuilder) -> None:
    """Wait for all threads of the block, in whatever places of a warp they are."""
    code.call(code.module.declare("llvm.nvvm.barrier.sync", VOID, I32, pure=False), 0)


def _team_sum(module: ModuleBuilder) -> Callee:
    """Every thread of a team gets the sum over all its threads, in log₂ 32 exchanges of a warp and one of warps."""
    if "team_sum" not in module.callees:
        given = {"v": I64, "members": I32, "team": I64, "rank": I64}
        f = module.function("team_sum", I64, given, "convergent alwaysinline nounwind")
        shuffle = module.declare("llvm.nvvm.shfl.sync.bfly.i32", I32, I32, I32, I32, I32, pure=False)
        v, members, team, rank = f.arguments
        total = f.variable(I64, "total", v)
        for k in range(WARP.bit_length() - 1):
            with f.when(team.gtu(1 << k), f"exchange{k}"):
                v = total.load()
                low, high = (f.call(shuffle, members, half.to(I32), 1 << k, WARP - 1) for half in (v, v.shr(32)))
                total.store(v + (high.to(I64) << 32 | low.to(I64)))
        with f.when(team.gtu(WARP), "warps"):
            words = f"internal addrspace({SHARED}) global [{MOST_TEAM // WARP} x i64] undef, align 8"
            module.define("@team_words", f"@team_words = {words}")
            sums = Value(f, pointer(SHARED), "@team_words").of(I64)
            with f.when((rank & WARP - 1).eq(0), "first"):
                sums[rank.shr(WARP.bit_length() - 1)].store(total.load())
            _wait_for_block(f)
            total.store(0)
            with f.loop(team.shr(WARP.bit_length() - 1), "sums") as warp:
                total.add(sums[warp].load())
            # Before the words of the next exchange.
            _wait_for_block(f)
        f.ret(total.load())
    return module.callees["team_sum"]
