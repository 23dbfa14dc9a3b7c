"""Control-flow graph of a program from one of its ends, with both directions of its code.

Nodes are (address, landed). `landed`: the instruction is met with BR ≠ 0, by a jump; only a branch may end a jump. Addresses
count the code as it runs forward, 0…n−1, then as it runs backward, n…2n−1, so the next instruction is the next address in
either direction, and turning round is reflection. A jump from b to t is an edge where the constant of the branch at b, or at t, gives
it. All other jumps are bailouts to the interpreter.

A mirror is a pair of a compute block and its uncompute block, the exact inverse of it:

    compute = code[start:end];  body = code[end:undo];  uncompute = code[undo:after] = compute⁻¹

The compiler hints at pairs, and at the region of memory in which an access stays. Each pair is verified here, and
translated code checks at
run time that the body keeps the words that the compute block uses (ghost_uncompute.py). A wrong hint costs time and
never changes a result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from retrograd.isa.effects import Erase, Unerase
from retrograd.isa.encoding import Instruction, inverse
from retrograd.isa.entries import REGISTER_FIELDS, Mode, br
from retrograd.isa.expr import ONE, Expr, const, place
from retrograd.isa.program import MAX_DATA, WORTH_SKIPPING, Hints, Program
from retrograd.isa.words import Format
from retrograd.simulator.engines.llvm.instructions import Step, step_of
from retrograd.simulator.engines.translator.affine import AffineForms

Node = tuple[int, bool]
#: (first address, words) of a range of memory
Region = tuple[int, int]
#: words of regions that one compute block may store to: they are copied before it
COPIED = 1024
#: blocks around an instruction up to which pairs are verified, on average: any hints take time in proportion to the
#: code
NESTED = 64
#: whether variants have vector loops unless they say otherwise
VECTOR_LOOPS = True


@dataclass(frozen=True)
class Variant:
    """The kind of function that is made of a program. `whole`: it runs a whole machine and leaves its state; else one instance of a batch."""

    differentiating: bool = False
    backward: bool = False
    #: all guards are checked; without it only addresses are
    checks: bool = True
    overflow: bool = True
    strict: bool = False
    whole: bool = True
    #: all registers of the machine are zero where it begins, as those of an instance are
    zeros: bool = False
    #: the instance runs on a device: word a of its memory lies at a · stride, the stride being the number of instances in flight
    device: bool = False
    #: hints for loops of an instance whose passes several threads of a device share (cuda/teams.py); None: one thread
    team: Hints | None = None
    #: an instance of a batch counts its cycles; those of a whole machine are computed from the counts of its blocks
    cycles: bool = False
    #: the co-processor's core whose cycles these are
    core: str = "small"
    #: passes of innermost loops run side by side in the vector unit
    vector_loops: bool = field(default_factory=lambda: VECTOR_LOOPS)
    #: the uncompute blocks that may be skipped (ghost_uncompute.py); None: they are executed
    ghosts: Hints | None = None
    #: skipped blocks may clear regions that have held zeros
    clears: bool = False
    #: regions of memory that begin with words of the program, start and end of each; for converged lanes (converged_lanes.py)
    tables: tuple[tuple[int, int], ...] = ()
    #: addresses in the flow at which a run of a whole machine stops with BR = 0, and from which it goes on
    stops: tuple[int, ...] = ()


class Mirror(NamedTuple):
    """A compute block and its uncompute block, by their addresses."""

    start: int
    end: int
    undo: int
    after: int


def can_be_undone(i: Instruction) -> bool:
    opcode = i.opcode
    if opcode.turns or opcode.name in ("start", "finish") or ("br" in opcode.writes and "d" in opcode.writes):
        return False
    return not any(isinstance(e, Erase | Unerase) for e in opcode.effects(Format()))


def registers(i: Instruction) -> list[int]:
    """The registers that an instruction names."""
    return [getattr(i, f) for f in ("rd", "ra", "rb") if f in i.opcode.fields]


def written(i: Instruction) -> list[int]:
    """The registers that an instruction changes."""
    return [getattr(i, REGISTER_FIELDS[place]) for place in i.opcode.writes if place in REGISTER_FIELDS]


def meet(x: Region, y: Region) -> bool:
    """Whether two regions have a word in common."""
    return x[0] < y[0] + y[1] and y[0] < x[0] + x[1]


def has_address(i: Instruction) -> bool:
    return "[ra+imm]" in i.opcode.operands


@dataclass
class Flow:
    """The control flow of a program from one of its ends.

    `hints`: those of a variant whose uncompute blocks are skipped. `clears`: regions that are too large to be copied
    are cleared by a skipped block, if they have held zeros.
    `stops`: addresses at which blocks begin besides, see Variant.
    """

    program: Program
    origin: int
    hints: Hints | None = None
    clears: bool = False
    stops: frozenset[int] = frozenset()
    code: list[Instruction] = field(init=False)
    #: straight runs and single branches: node -> addresses of its instructions
    blocks: dict[Node, list[int]] = field(init=False)
    successors: dict[Node, list[Node]] = field(init=False)
    #: targets of back edges: one on every cycle
    headers: set[Node] = field(init=False)

    def __post_init__(self) -> None:
        p = self.program
        forward = list(p.instructions)
        self.code = [*forward, *(inverse(i, p.table) for i in reversed(forward))]
        self._targets: dict[int, list[int]] = {}
        for at, i in enumerate(self.code):
            if "br" in i.opcode.writes and "imm" in i.opcode.reads:
                leaves = self.leaves(at)
                to = leaves + i.imm
                if self.side(to) == self.side(leaves):
                    self._targets.setdefault(at, []).append(to)
                    if leaves not in self._targets.setdefault(to, []):
                        self._targets[to].append(leaves)
        #: compute blocks whose uncompute blocks are skipped, each behind the blocks that it holds
        self.ghosts: list[Mirror] = []
        #: address of an access -> the region in which it is expected
        self.regions: dict[int, Region] = {}
        #: entry of a procedure -> the regions that it and the procedures that it calls store to
        self._procedures: dict[int, set[Region | None]] = {}
        if self.hints is not None:
            self._find_ghosts(self.hints)
        self._explore_reached()
        #: the instructions that each counter counts: one counter for each block, and one for each of a compute block that is skipped
        self.counters = [list(run) for run in self.blocks.values()]
        #: (counter, the counter of the same instructions in the compute block, pair)
        self.counted_twice: list[tuple[int, int, Mirror]] = []
        for ghost in self.ghosts:
            self._count_twice(ghost)

    @property
    def length(self) -> int:
        return len(self.program.code)

    def side(self, at: int) -> int:
        """0 forward, 1 backward, −1 nowhere."""
        return at // self.length if 0 <= at < 2 * self.length else -1

    def mirror(self, at: int) -> int:
        """The address of the same instruction in the other direction."""
        return 2 * self.length - 1 - at

    def leaves(self, at: int) -> int:
        """The address after the branch, before the PC moves: the branch itself, mirrored if it turns round."""
        return self.mirror(at) if self.code[at].opcode.turns else at

    def branches(self, at: int) -> bool:
        return "br" in self.code[at].opcode.writes

    def jumps(self, at: int) -> list[int]:
        """The targets of jumps from the branch that take a jump."""
        side = self.side(self.leaves(at))
        if self._ends_jumps(at):
            return []
        return [to for to in self._targets.get(at, []) if self.side(to) == side and self._takes_jumps(to)]

    def _step(self, at: int) -> Step:
        return step_of(self.code[at], self.program.format)

    def _takes_jumps(self, at: int) -> bool:
        """Whether it may be met with BR ≠ 0."""
        return self.branches(at) and br.eq(0) not in self._step(at).guards["always"]

    def _ends_jumps(self, at: int) -> bool:
        """Whether its guards leave BR = 0."""
        found = self._step(at)
        return found.after["br"].eq(0) in found.guards["always"]

    def after(self, at: int) -> Node | None:
        """The node that follows with BR = 0, if the code goes on there."""
        to = at + 1
        return (to, False) if self.side(to) == self.side(at) else None

    # ------------------------------------------------------------------ uncompute blocks

    def _find_ghosts(self, hints: Hints) -> None:
        for at, first, words in hints.accesses:
            if 0 <= first < first + words <= MAX_DATA:
                self.regions[at] = self.regions[self.mirror(at)] = first, words
        found = [ghost for ghost in self.mirrors(hints) if not self.refusal(ghost)]
        # Of uncompute blocks that begin at one place, the longest is skipped.
        longest = {ghost.undo: ghost for ghost in sorted(found, key=lambda g: g.end - g.start)}
        # A compute block may hold a skipped block, or be one: the pair of that has its counters first.
        self.ghosts = sorted(longest.values(), key=lambda g: (g.end - g.start, g.start))

    def mirrors(self, hints: Hints) -> Iterator[Mirror]:
        """The pairs that are hinted at and verified, in both directions."""
        inside, left = [], NESTED * self.length
        for pair in hints.pairs:
            if all(0 <= at <= self.length for at in pair) and left > 0:
                left -= abs(pair[3] - pair[0])
                inside.append(pair)
        for pair in (*inside, *Hints(tuple(inside)).reflected(2 * self.length).pairs):
            yield from self._verified(*pair)

    def _verified(self, start: int, end: int, undo: int, after: int) -> Iterator[Mirror]:
        """The pairs inside a pair that is hinted at: the longest runs that the other block undoes, and that no jump leaves."""
        n, code, table = end - start, self.code, self.program.table
        if not (start < end <= undo < after and after - undo == n):
            return
        holds = [can_be_undone(i) and code[after - 1 - k] == inverse(i, table) for k, i in enumerate(code[start:end])]
        jumps = [(k, to - start) for k in range(n) for to in self._targets.get(start + k, ())]
        while cut := [
            *(k for k, to in jumps if holds[k] and not (0 <= to < n and all(holds[min(k, to) : max(k, to) + 1]))),
            *self._changed(start, end, undo, holds),
        ]:
            for k in cut:
                holds[k] = False
        for kept, run in groupby(range(n), holds.__getitem__):
            first, *_, last = [*run] * 2
            # A part of a block saves less than the whole, and has as many conditions.
            if kept and (last - first + 1 == n or last - first >= 2 * WORTH_SKIPPING):
                yield Mirror(start + first, start + last + 1, after - 1 - last, after - first)

    def _changed(self, start: int, end: int, undo: int, holds: list[bool]) -> Iterator[int]:
        """Accesses of a compute block to words that may be stored to behind the run of instructions in which they lie."""
        stored = self._stored_in(range(end, undo))
        run: set[Region | None] = set()
        for at in reversed(range(start, end)):
            held = holds[at - start]
            region = self.regions.get(at)
            if held and has_address(self.code[at]) and self._may_meet(region, stored, self._stores(at)):
                held = False
                yield at - start
            if self._stores(at):
                run.add(region)
            if not held:
                stored |= run
                run.clear()

    def _stored_in(self, stretch: range) -> set[Region | None]:
        """The regions of stores in a stretch of code, and in the procedures that it calls."""
        out = {self.regions.get(at) for at in stretch if self._stores(at)}
        for at in stretch:
            if self.code[at].opcode.name in ("call", "uncall"):
                for to in self._targets.get(at, ()):
                    entry = min(to, self.mirror(to))
                    if entry not in self._procedures:
                        self._procedures[entry] = set()
                        last = min(entry + max(self.code[entry - 1].imm, 0), self.length)
                        self._procedures[entry] |= self._stored_in(range(entry, last))
                    out |= self._procedures[entry]
        return out

    def _may_meet(self, region: Region | None, stored: set[Region | None], stores: bool) -> bool:
        if region is None:
            return stores or bool(stored)
        return any(other is None or meet(region, other) for other in stored)

    def _stores(self, at: int) -> bool:
        return "m" in self.code[at].opcode.writes

    def refusal(self, ghost: Mirror) -> str:
        """Why the uncompute block of a pair must be executed; empty where it may be skipped."""
        for block in (range(ghost.start, ghost.end), range(ghost.undo, ghost.after)):
            if self.side(block[0]) != self.side(block[-1] + 1):
                return "the end of the program lies beside it"
            if any(to not in block for at in block for to in self._targets.get(at, ())):
                return "a jump enters or leaves it"
        stored = self._stored(ghost)
        if None in stored:
            return "its compute block stores to a region that is not known"
        if (large := self.cleared_regions(ghost)) and not (self.clears and self._pushes_to(ghost, large)):
            return f"its compute block stores to more than {COPIED} words"
        if ghost.end - ghost.start < WORTH_SKIPPING and not any(
            self.branches(at) for at in range(ghost.start, ghost.end)
        ):
            return "it is short"
        return "it lies in a loop without branches" if self._in_straight_loop(ghost) else ""

    def _in_straight_loop(self, ghost: Mirror) -> bool:
        """Whether the pair lies in a loop without branches, whose passes are evaluated as a whole (loops.py)."""
        if any(self.branches(at) for at in range(ghost.start, ghost.after)):
            return False
        first, last = ghost.start, ghost.after - 1
        while self.side(first) == self.side(ghost.start) and not self.branches(first):
            first -= 1
        while self.side(last) == self.side(ghost.start) and not self.branches(last):
            last += 1
        return first < ghost.start and last >= ghost.after and first in self._targets.get(last, ())

    def _stored(self, ghost: Mirror) -> set[Region | None]:
        return {self.regions.get(at) for at in range(ghost.start, ghost.end) if "m" in self.code[at].opcode.writes}

    def stored_regions(self, ghost: Mirror) -> list[Region]:
        """The regions that a compute block stores to."""
        return sorted(region for region in self._stored(ghost) if region is not None)

    def copied_regions(self, ghost: Mirror) -> list[Region]:
        """The regions that a compute block stores to, and that are copied before it: the smallest that fit."""
        copied, left = [], COPIED
        for region in sorted(self.stored_regions(ghost), key=lambda region: region[1]):
            if region[1] > left:
                break
            copied.append(region)
            left -= region[1]
        return sorted(copied)

    def cleared_regions(self, ghost: Mirror) -> list[Region]:
        """The other regions that a compute block stores to. They must hold zeros before it."""
        copied = self.copied_regions(ghost)
        return [region for region in self.stored_regions(ghost) if region not in copied]

    def clears_at(self, at: int) -> bool:
        """Whether a store puts words into a region that a skipped block clears."""
        region = self.regions.get(at)
        return any(g.start <= at < g.end and region in self.cleared_regions(g) for g in self.ghosts)

    def _pushes_to(self, ghost: Mirror, large: Collection[Region]) -> bool:
        """Whether a compute block only exchanges words into these regions, as onto a stack.

        A sum of words of an array may have a vector form, which is worth more.
        """
        stores = [at for at in range(ghost.start, ghost.end) if self._stores(at) and self.regions[at] in large]
        return all(self.code[at].opcode.name == "exch" for at in stores)

    def skipped(self, node: Node) -> Mirror | None:
        """The pair whose uncompute block is skipped at the node."""
        return next((g for g in self.ghosts if (g.undo, False) == node), None)

    def stores_between(self, ghost: Mirror) -> list[int]:
        """The addresses of stores, and of skipped blocks, that can run between a compute block and its uncompute block."""
        seen: set[Node] = set()
        stack: list[Node] = [(ghost.end, False)]
        while stack:
            node = stack.pop()
            if node in seen or node == (ghost.undo, False):
                continue
            seen.add(node)
            stack += self.successors[node]
        skipped = [node[0] for node in seen if not node[1] and node[0] in self._skipped]
        return sorted(
            {*skipped, *(at for node in seen for at in self.blocks[node] if "m" in self.code[at].opcode.writes)}
        )

    def _count_twice(self, ghost: Mirror) -> None:
        for source, run in enumerate(list(self.counters)):
            if run and ghost.start <= run[0] < ghost.end:
                self.counted_twice.append((len(self.counters), source, ghost))
                self.counters.append([ghost.start + ghost.after - 1 - at for at in run])

    # ------------------------------------------------------------------ blocks

    def _next(self, node: Node) -> list[Node]:
        if not node[1] and node[0] in self._skipped:
            return [(self._skipped[node[0]], False)]
        at = self.blocks[node][-1] if self.blocks[node] else node[0]
        if self.branches(at):
            on = self.after(self.leaves(at))
            return [*([on] if on else []), *((to, True) for to in self.jumps(at))]
        if self.code[at].opcode.halts:
            return []
        on = self.after(at)
        return [on] if on else []

    def _explore_reached(self) -> None:
        """Find blocks. A pair of which a part is not reached is executed, which may reach more: the search begins again without it."""
        while True:
            self._skipped = {g.undo: g.after for g in self.ghosts}
            self._explore()
            reached = [
                g for g in self.ghosts if {(g.start, False), (g.end, False), (g.undo, False)} <= self.blocks.keys()
            ]
            if len(reached) == len(self.ghosts):
                return
            self.ghosts = reached

    def _explore(self) -> None:
        """Find blocks from the origin on, and the targets of back edges, by a depth-first walk."""
        leaders = self._leaders()
        self.blocks, self.successors, self.headers = {}, {}, set()
        origin: Node = (self.origin, False)
        active: set[Node] = set()
        stack: list[tuple[Node, Iterator[Node]]] = [(origin, self._open(origin, leaders))]
        active.add(origin)
        while stack:
            node, rest = stack[-1]
            to = next(rest, None)
            if to is None:
                active.discard(node)
                stack.pop()
            elif to in active:
                self.headers.add(to)
            elif to not in self.blocks:
                stack.append((to, self._open(to, leaders)))
                active.add(to)

    def _open(self, node: Node, leaders: set[int]) -> Iterator[Node]:
        at, landed = node
        if not landed and at in self._skipped:
            self.blocks[node], self.successors[node] = [], self._next(node)
            return iter(self.successors[node])
        run = [at]
        while not self.branches(at) and not self.code[at].opcode.halts:
            at += 1
            if self.side(at) != self.side(run[0]) or at in leaders or self.branches(at):
                break
            run.append(at)
        self.blocks[node] = run
        self.successors[node] = self._next(node)
        return iter(self.successors[node])

    def _leaders(self) -> set[int]:
        """Addresses where blocks begin: branches, and the instructions that follow them."""
        out = {self.origin, *self.stops}.union(*self.ghosts)
        for at in range(2 * self.length):
            if self.branches(at):
                out.add(at)
                on = self.after(self.leaves(at))
                if on:
                    out.add(on[0])
        return out


def flow_of(program: Program, variant: Variant) -> Flow:
    """The control-flow graph from the end of the program where the variant begins."""
    end = 2 * len(program.code) - 1 - program.finish if variant.backward else program.start
    # A machine that was turned round at an end is beyond it already.
    return Flow(
        program, end + variant.whole, variant.ghosts, variant.clears and variant.whole, frozenset(variant.stops)
    )


# -----------------------------------------------------------------------------
# Symbolic evaluation of one pass of a loop: registers and words of memory as trees over the words at its beginning.
#
# The trees are in affine normal form (affine.py), so a word that is loaded, used and put back leaves its register as it was. A word of
# memory is known by its address, base + offset: a base is a sum of registers. Two words of one base are the same word just where
# their offsets are equal. Words of different bases are taken for different words, which the code that relies on it must test.


class Refusal(Exception):
    """The loop stays scalar; the argument is the reason."""


@dataclass(frozen=True, order=True)
class Base:
    """The part of an address that is made of registers: (register, coefficient), …"""

    terms: tuple[tuple[int, int], ...]


#: where a word lies: base + offset
Word = tuple[Base, int]
#: a guard, and the words of its instruction
GuardAndWords = tuple[Expr, dict[str, Expr]]


def register(r: int) -> str:
    """The name of the input that stands for a register at the beginning of a pass."""
    return f"r{r}"


class SymbolicPass:
    """One pass, evaluated symbolically."""

    def __init__(self, flow: Flow, steps: Mapping[int, Step], forms: AffineForms, given: Mapping[int, int]) -> None:
        self.flow, self.steps, self.forms, self.given = flow, steps, forms, given
        self.registers: dict[int, Expr] = {}
        self.read: set[int] = set()
        self.memory: dict[Word, Expr] = {}
        self.loads: dict[Word, str] = {}
        #: address of an instruction -> the word that it reads or writes
        self.accesses: dict[int, Word] = {}
        #: bases of words that are written, also of words that are put back
        self.stored: set[Base] = set()
        self.guards: list[GuardAndWords] = []
        self.erased = 0

    def word(self, r: int) -> Expr:
        found = self.registers.get(r)
        if found is None:
            found = const(self.forms.w.signed(self.given[r])) if r in self.given else place(register(r))
            self.registers[r] = found
        return found

    def execute(self, at: int, modes: Iterable[Mode]) -> None:
        i, found = self.flow.code[at], self.steps[at]
        words, address = self._words(i, found)
        if address is not None:
            self.accesses[at] = address
        self.guards += [(tree, words) for mode in modes for tree in found.guards[mode]]
        after = {p: self.forms.normal(tree, words) for p, tree in found.after.items()}
        for p, tree in after.items():
            if p in REGISTER_FIELDS:
                self.registers[getattr(i, REGISTER_FIELDS[p])] = tree
            else:
                assert address is not None
                self.memory[address] = tree
                self.stored.add(address[0])
        self.erased += len(found.erases)

    def branch(self, at: int, br: int) -> tuple[Expr, list[Expr]]:
        """(BR behind the branch, the guards of the branch)"""
        i, found = self.flow.code[at], self.steps[at]
        if found.after.keys() != {"br"} or found.memory:
            raise Refusal("a branch of the loop changes registers")
        words = self._words(i, found)[0] | {"br": const(br)}
        return self.forms.normal(found.after["br"], words), [
            self.forms.normal(tree, words) for tree in found.guards["always"]
        ]

    def _words(self, i: Instruction, found: Step) -> tuple[dict[str, Expr], Word | None]:
        words = {"imm": const(i.imm)} if "imm" in found.reads else {}
        for p in REGISTER_FIELDS.keys() & found.reads:
            words[p] = self.word(getattr(i, REGISTER_FIELDS[p]))
        address = None
        if found.memory:
            address = self._address(self.forms.sum(self.word(i.ra), const(i.imm)))
            if address not in self.memory:
                name = self.loads[address] = f"m{len(self.loads)}"
                self.memory[address] = place(name)
            words["m"] = self.memory[address]
        return words, address

    def _address(self, tree: Expr) -> Word:
        form = dict(self.forms.form(tree))
        offset = form.pop(ONE, 0)
        terms = []
        for atom, k in form.items():
            if atom.op != "input" or not str(atom.param).startswith("r"):
                raise Refusal("an address depends on a word of memory or on a product")
            terms.append((int(str(atom.param)[1:]), k))
        return Base(tuple(sorted(terms))), offset
