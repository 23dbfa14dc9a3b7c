"""Dependence analysis of innermost loops: which of them may execute several passes at once.

A candidate is a cycle of the flow graph that is one straight line: the landing of the back edge (`header`), straight blocks (`body`),
and the branch that closes the loop (`closing`). A pass is the body, the closing branch and the header. One pass is evaluated
symbolically: registers and words of memory become trees over the words at its beginning, in affine normal form, so a word that is
loaded, used and put back leaves its register as it was. From that follows the class of each register,

    invariant r' = r        induction r' = r + c        accumulator r' = r + f, where nothing else in the pass reads r

and each word of memory has an address, base + offset, that advances by a constant stride from pass to pass.

Passes are executed in chunks: all words are loaded before any is stored. That is correct where no pass reads or overwrites a word
that an earlier pass of the same chunk has written. Words that passes only add to are an exception, since integer sums may
be taken in any order.

Nothing is believed without a test that the code makes before it stores: that registers hold the constants on which the
analysis relies, that different bases do not overlap, and that the words are small enough for the sums which are not checked.

A product x·y fits where |x| < 2^p and |y| < 2^(total − p), for any p. The code chooses p at run time from the words
that it meets (`Split`): the cotangents of a loop are often much larger than the numbers by which they are multiplied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from retrograd.isa.entries import REGISTER_FIELDS
from retrograd.isa.expr import ONE, ZERO, Expr, const, half, inputs, nodes, place
from retrograd.isa.folds import is_truth, product_tested_by, sum_tested_by
from retrograd.isa.program import Program
from retrograd.simulator.engines.llvm.builder import storage
from retrograd.simulator.engines.llvm.instructions import MODES, shifts, step_of
from retrograd.simulator.engines.translator.affine import AffineForms, Bounds, Form, Intervals
from retrograd.simulator.engines.translator.flow import (
    Base,
    Flow,
    GuardAndWords,
    Node,
    Refusal,
    SymbolicPass,
    Variant,
    Word,
    flow_of,
    register,
)

#: the width of the words that `lanes` counts; narrower words have more lanes in a register
WIDTH = 64
#: words of 64 bits in a register of AVX-512
WIDE = 8
#: instructions with more nodes are functions of their own, and stay scalar
MOST_NODES = 40
#: bits beyond half a word below which no bound of words is tried: with fewer bits, more checks need not be made
FEWEST_BITS = 2
#: rows of an outer loop whose order of adding to a word may change
SPREAD = 3
#: distances between addresses of a chunk lie far below
FAR = 1 << 48
#: passes whose addresses are tested at once, between which the host can stop the run
STRIP = 1 << 20
#: of this number of words, one may lie apart from that of the next pass: it costs as much as in scalar code
MOST_SCATTERED = 8
#: operations of a pass, and lanes, up to which a loop also has chunks of several registers of words
FEW_NODES, MOST_LANES = 16, 64
#: rounded products of two words
PRODUCTS = ("mulshift", "mulround")
#: rounds in which registers are found that begin each pass with the same constant
ROUNDS = 4
#: bits by which bounds of sums and of factors stay below a word, first the largest that is tried
HEADROOM = (2, 4, 8)


@dataclass(frozen=True)
class Split:
    """Bounds of words of which those of factors depend on a number p, low ≤ p ≤ high, that is chosen at run time.

    |left| < 2^p,  |right| < 2^(total − p),  |any other| < 2^rest

    Each product has a factor of either side; or the left side is one word, the products of others have two factors of
    the right side, and p ≥ total / 2. The bounds of all sums are convex in p, so it suffices to prove them for p = low
    and p = high.
    """

    left: frozenset[str]
    right: frozenset[str]
    total: int
    low: int
    high: int
    rest: int

    def bits(self, name: str, p: int) -> int:
        """The bits of an input."""
        return p if name in self.left else self.total - p if name in self.right else self.rest


class Countdown(NamedTuple):
    """x ≠ y, where x − y is `first` behind the first pass, a tree over the words at its beginning, and `by` more behind each next one."""

    first: Expr
    by: int


@dataclass
class VectorLoop:
    """A loop whose passes may run several at once."""

    header: Node
    body: list[Node]
    closing: Node
    #: the node behind the loop
    leave: Node | None
    lanes: int
    forms: AffineForms
    #: registers that hold a constant at the beginning of each pass
    constants: dict[int, int] = field(default_factory=dict)
    #: register -> the sum of its changes in a pass
    inductions: dict[int, int] = field(default_factory=dict)
    accumulators: dict[int, Expr] = field(default_factory=dict)
    #: address of each access of a pass -> the word that it touches
    accesses: dict[int, Word] = field(default_factory=dict)
    #: words that a pass touches -> the name of the input that stands for the word at its beginning
    loads: dict[Word, str] = field(default_factory=dict)
    #: word -> its tree behind the pass
    stores: dict[Word, Expr] = field(default_factory=dict)
    #: word -> the tree that a pass adds to it; several passes of a chunk may add to the same word
    sums: dict[Word, Expr] = field(default_factory=dict)
    #: every written word -> the tree that a pass adds to it, if passes only add, and read no word that they write
    additions: dict[Word, Expr] = field(default_factory=dict)
    strides: dict[Base, int] = field(default_factory=dict)
    #: base -> the least offset of its words
    lowest: dict[Base, int] = field(default_factory=dict)
    #: pairs of bases whose words must not overlap
    apart: list[tuple[Base, Base]] = field(default_factory=list)
    #: the closing branch leaves BR = `jump` where the loop goes on; the header's guards over `closing` and `jump`
    jump: int = 0
    after_closing: Expr = ZERO
    landing: list[Expr] = field(default_factory=list)
    #: the loop goes on while this holds, and its landing needs the others; None where words decide in another way
    end: Countdown | None = None
    met_before_end: list[Countdown] = field(default_factory=list)
    #: guards that are checked in each lane, with the words of their instruction
    guards: list[GuardAndWords] = field(default_factory=list)
    #: inputs that must be numbers of `bits` bits and a sign; all words have `W − 1`
    bits: int = WIDTH - 1
    bounded: set[str] = field(default_factory=set)
    #: other bounds of these inputs, for which as many checks are left
    split: Split | None = None
    #: bounds of trees for all bounds of their inputs that the code may test
    intervals: Intervals = field(init=False)
    #: lost words of a pass
    erased: int = 0
    #: the same loop with more lanes, if its passes are so short that the tests of a chunk would take most of the time
    wide: VectorLoop | None = None

    @property
    def start(self) -> Node:
        return self.body[0]


@dataclass(frozen=True)
class LoopFinding:
    """A candidate: the loop as it is vectorised, or the reason for which it stays scalar."""

    address: int
    reason: str
    loop: VectorLoop | None


def vector_loops(program: Program, variant: Variant, lanes: int = 8) -> list[LoopFinding]:
    """The innermost straight loops of a program, in the order of their addresses."""
    return find_vector_loops(flow_of(program, variant), variant, lanes)


def find_vector_loops(flow: Flow, variant: Variant, lanes: int) -> list[LoopFinding]:
    """`lanes`: words of 64 bits in a register; a loop over narrower words has more lanes."""
    out = []
    registers = 4 if lanes >= WIDE else 2
    lanes = lanes * WIDTH // flow.program.format.width
    constants: dict[int, int] | None = None
    for header, body, closing in _candidates(flow):
        if constants is None:
            constants = _lasting_constants(flow)
        try:
            loop = _Analysis(flow, variant, lanes, header, body, closing, constants).loop
            out.append(LoopFinding(header[0], "", loop))
        except Refusal as refusal:
            out.append(LoopFinding(header[0], str(refusal), None))
            continue
        if loop.end is not None and len(loop.loads) + _operations(loop) <= FEW_NODES:
            with suppress(Refusal):
                more = min(registers * lanes, MOST_LANES)
                wide = _Analysis(flow, variant, more, header, body, closing, constants).loop
                if more > lanes and len(wide.guards) == len(loop.guards):
                    loop.wide = wide
    return sorted(out, key=lambda finding: finding.address)


def _operations(loop: VectorLoop) -> int:
    trees = (*loop.stores.values(), *loop.sums.values(), *loop.accumulators.values())
    return sum(node.op not in ("const", "input") for node in nodes(*trees))


def _candidates(flow: Flow) -> Iterator[tuple[Node, list[Node], Node]]:
    for header in flow.blocks:
        at, landed = header
        if not landed or not flow.branches(at) or flow.code[at].opcode.turns:
            continue
        body: list[Node] = []
        node = flow.after(at)
        while node is not None and _is_straight(flow, node):
            body.append(node)
            node = flow.after(flow.blocks[node][-1])
        closed = node is not None and header in flow.successors[node]
        if body and node is not None and closed and not flow.code[node[0]].opcode.turns:
            yield header, body, node


def _is_straight(flow: Flow, node: Node) -> bool:
    """Whether the node executes instructions, and the next one follows, without a stop."""
    run = flow.blocks[node]
    return bool(run) and node[0] not in flow.stops and not flow.branches(run[0]) and not flow.code[run[-1]].opcode.halts


def _lasting_constants(flow: Flow) -> dict[int, int]:
    """Register -> the constant that the first block gives it, if no other code but a last block writes it.

    A guess: registers are taken to begin as zeros. The code tests each constant on which it relies.
    """
    forms, first = AffineForms(flow.program.format), (flow.origin, False)
    env: dict[int, Expr] = {}
    later: set[int] = set()
    for node, run in flow.blocks.items():
        last = bool(run) and flow.code[run[-1]].opcode.halts
        for at in run:
            i = flow.code[at]
            found = step_of(i, flow.program.format)
            written = {getattr(i, REGISTER_FIELDS[p]) for p in found.after if p in REGISTER_FIELDS}
            if node != first:
                later |= set() if last else written
            elif not (found.reads - {"imm", "d"} or found.memory or "br" in found.after):
                words = {"imm": const(i.imm), "d": env.get(i.rd, ZERO)}
                for tree in found.after.values():
                    env[i.rd] = forms.normal(tree, words)
            else:
                later |= written
    return {r: int(e.param) for r, e in env.items() if r not in later and e.op == "const" and isinstance(e.param, int)}


class _Analysis:
    def __init__(
        self,
        flow: Flow,
        variant: Variant,
        lanes: int,
        header: Node,
        body: list[Node],
        closing: Node,
        constants: Mapping[int, int],
    ) -> None:
        self.flow = flow
        self.modes = tuple(m for m in MODES if variant.checks and (m == "always" or getattr(variant, m)))
        w = flow.program.format
        if storage(w).bits != w.width:
            raise Refusal(f"words have {w.width} bits")
        if variant.differentiating:
            raise Refusal("cotangents move along")
        self.addresses = [at for node in body for at in flow.blocks[node]]
        everything = [*self.addresses, closing[0], header[0]]
        self.steps = {at: step_of(flow.code[at], w) for at in everything}
        if any(flow.clears_at(at) for at in self.addresses):
            raise Refusal("a skipped block clears the words that it stores to")
        if any(s.unerases or s.drops for s in self.steps.values()):
            raise Refusal("a lost word would have to come back")
        if any(self.steps[at].size > MOST_NODES for at in self.addresses):
            raise Refusal("an instruction is too long to be repeated in line")
        self.forms = AffineForms(w)
        leave = flow.after(closing[0])
        self.loop = VectorLoop(header, body, closing, leave, lanes, self.forms)
        written = {
            getattr(flow.code[at], REGISTER_FIELDS[p])
            for at in self.addresses
            for p in self.steps[at].after
            if p in REGISTER_FIELDS
        }
        self.loop.constants = {r: c for r, c in constants.items() if r not in written}
        self.written = written
        for _ in range(ROUNDS):
            if not self._guess():
                break
        self._classify()
        self._follow()
        self._memory()
        self._reads()
        self._checks()
        self.loop.constants = {r: c for r, c in self.loop.constants.items() if r in self.run.registers}

    # ------------------------------------------------------------------ registers

    def _guess(self) -> bool:
        """Evaluate a pass; whether registers were found that are taken to hold constants from now on."""
        self.run = SymbolicPass(self.flow, self.steps, self.forms, self.loop.constants)
        for at in self.addresses:
            self.run.execute(at, self.modes)
        in_addresses = {r for base, _ in self.run.loads for r, _ in base.terms}
        found = {}
        for r in self.written - self.loop.constants.keys():
            tree = self.run.registers[r]
            if tree.op == "const" and isinstance(tree.param, int):
                found[r] = tree.param
            elif tree is place(register(r)) and r not in in_addresses:
                # Temporaries are zero where they are not in use.
                found[r] = 0
        self.loop.constants |= found
        return bool(found)

    def _classify(self) -> None:
        loop, forms = self.loop, self.forms
        for r in sorted(self.written):
            tree, entry = self.run.registers[r], place(register(r))
            if r in loop.constants:
                if tree is not const(loop.constants[r]):
                    raise Refusal(f"r{r} changes from pass to pass")
                continue
            if tree is entry:
                continue
            added = forms.sum(tree, entry, -1)
            if added.op == "const" and isinstance(added.param, int):
                loop.inductions[r] = added.param
            elif register(r) not in added.inputs:
                loop.accumulators[r] = added
            else:
                raise Refusal(f"r{r} carries a word from one pass to the next")

    def _follow(self) -> None:
        """The way from a pass to the next: the closing branch and the landing."""
        loop, flow = self.loop, self.flow
        closing, header = loop.closing[0], loop.header[0]
        loop.jump = header - flow.leaves(closing)
        loop.after_closing, guards = self.run.branch(closing, 0)
        arrived, more = self.run.branch(header, loop.jump)
        if any(guard is not const(1) for guard in guards):
            raise Refusal("the closing branch has a guard")
        loop.landing = [arrived.eq(0), *more]
        for tree in (loop.after_closing, *loop.landing):
            if any(name.startswith("m") for name in tree.inputs):
                raise Refusal("the end of the loop depends on a word of memory")
        arriving = [self._arriving(guard) for guard in loop.landing if guard is not const(1)]
        found = [self._countdown(truth) for truth in (self._goes_on(loop.after_closing), *arriving)]
        counted = [each for each in found if each is not None]
        if len(counted) == len(found) and counted[0].by:
            loop.end, loop.met_before_end = counted[0], list(dict.fromkeys(counted[1:]))

    def _arriving(self, guard: Expr) -> Expr:
        """The truth c of a guard that jump − (jump if c, else 0) is 0; another guard as it is."""
        if guard.op != "eq" or guard.args[1] is not ZERO:
            return guard
        found = self._goes_on(self.forms.sum(const(self.loop.jump), guard.args[0], -1))
        return guard if found is ZERO else found

    def _goes_on(self, tree: Expr) -> Expr:
        """The truth c, of a tree that is `jump` if c, else 0; 0 of another tree."""
        jump = const(self.loop.jump)
        return tree.args[0] if tree.op == "select" and tree.args[1] is jump and tree.args[2] is ZERO else ZERO

    def _countdown(self, truth: Expr) -> Countdown | None:
        """Of x ≠ y, if x − y advances by a constant."""
        if truth.op != "eq" or truth.args[1] is not ZERO or truth.args[0].op != "eq":
            return None
        x, y = truth.args[0].args
        first = self.forms.sum(x, y, -1)
        terms = [(atom, k) for atom, k in self.forms.form(first).items() if atom is not ONE]
        if any(atom.op != "input" for atom, _ in terms):
            return None
        by = sum(k * self.loop.inductions.get(int(str(atom.param)[1:]), 0) for atom, k in terms)
        return Countdown(first, self.forms.w.signed(by))

    # ------------------------------------------------------------------ memory

    def _memory(self) -> None:
        loop, run = self.loop, self.run
        loop.loads, loop.accesses, loop.erased = run.loads, run.accesses, run.erased
        if not loop.loads:
            raise Refusal("the loop does not touch memory")
        for base, _ in loop.loads:
            if any(r in loop.accumulators for r, _ in base.terms):
                raise Refusal("an address changes irregularly")
            loop.strides[base] = self.forms.w.signed(sum(k * loop.inductions.get(r, 0) for r, k in base.terms))
        for base, stride in loop.strides.items():
            offsets = [offset for other, offset in loop.loads if other == base]
            loop.lowest[base] = min(offsets)
            if abs(stride) >= FAR or max(offsets) - min(offsets) >= FAR:
                # No address of a chunk may wrap around to another.
                raise Refusal("addresses lie too far apart")
            if abs(stride) >= FAR // STRIP:
                loop.end = None
        scattered = sum(abs(loop.strides[base]) > 1 for base, _ in loop.loads)
        if scattered * MOST_SCATTERED > len(loop.loads):
            raise Refusal("too many words lie apart from pass to pass")
        written = {word: tree for word, tree in run.memory.items() if tree is not place(loop.loads[word])}
        sums = {}
        for word, tree in written.items():
            entry = place(loop.loads[word])
            added = self.forms.sum(tree, entry, -1)
            if str(entry.param) not in added.inputs:
                sums[word] = added
        #: words to which rows of an outer loop may add in another order
        self.spread: list[Word] = []
        #: words to which two passes of a chunk may add
        self.met: dict[Word, list[Word]] = {}
        for word in written:
            self._compare(word, written, sums)
        loop.sums = {word: sums[word] for word in self.met}
        loop.stores = {word: tree for word, tree in written.items() if word not in self.met}
        names = {loop.loads[word] for word in written}
        if not loop.accumulators and sums.keys() == written.keys() and not names & inputs(*sums.values()):
            loop.additions = dict(sums)
        bases = list(loop.strides)
        loop.apart = [(x, y) for k, x in enumerate(bases) for y in bases[:k] if {x, y} & run.stored]

    def _compare(self, word: Word, written: Mapping[Word, Expr], sums: Mapping[Word, Expr]) -> None:
        """Compare a word that is written with the other words of its base, in passes less than a chunk apart."""
        loop, (base, offset) = self.loop, word
        stride = loop.strides[base]
        if stride == 0:
            if word not in sums:
                raise Refusal("each pass overwrites the same word")
            self.met[word] = [word] * (loop.lanes - 1)
            return
        for other in loop.loads:
            apart = other[1] - offset
            if other[0] != base or other == word or apart % stride or abs(apart // stride) >= loop.lanes:
                continue
            if word in sums and other in sums:
                self.met.setdefault(word, []).append(other)
            elif other in written or apart // stride < 0:
                raise Refusal(f"a pass reads or writes a word that is written {abs(apart // stride)} passes before")

    def _reads(self) -> None:
        """Accumulators, and words to which several passes add, are read by nothing else."""
        loop = self.loop
        alone = {register(r) for r in loop.accumulators} | {loop.loads[word] for word in loop.sums}
        trees = [*loop.accumulators.values(), *loop.sums.values(), *loop.stores.values(), loop.after_closing]
        read = inputs(*trees, *loop.landing)
        if alone & read:
            raise Refusal("a partial sum is read")
        self.alone = alone

    # ------------------------------------------------------------------ checks

    def _checks(self) -> None:
        """The bound of the words for which the fewest checks are left."""
        loop = self.loop
        names = {*loop.loads.values(), *(register(r) for r in self.run.registers)}
        names -= {register(r) for r in loop.inductions}
        least, left = self._least_checks(names)
        if loop.additions:
            # Rows of an outer loop may add in another order, too.
            self.spread = [word for word in loop.additions for _ in range(SPREAD)]
            wide, more = self._least_checks(names)
            if more:
                self.spread, loop.additions = [], {}
            else:
                least, left = wide, more
        loop.bits, loop.guards = least, left
        for tree, words in loop.guards:
            used = [words[name] for name in inputs(tree)]
            if self.alone & inputs(*used):
                raise Refusal("a partial sum is checked, and its bounds are not known")
            if self.forms.normal(tree, words) is ZERO:
                raise Refusal("a check fails in every pass")
        if loop.bits < self.forms.w.width - 1:
            kept = set(map(id, loop.guards))
            proven = [guard for guard in self.run.guards if id(guard) not in kept]
            trees = [words[name] for tree, words in proven for name in inputs(tree)]
            relied = inputs(*trees, *loop.sums.values(), *loop.accumulators.values(), *loop.additions.values())
            loop.bounded = {name for name in relied if name.startswith("m") or int(name[1:]) not in loop.inductions}
            loop.split = self._split(proven)
        split = loop.split
        widest = {
            n: loop.bits if split is None else max(split.bits(n, split.low), split.bits(n, split.high))
            for n in loop.bounded
        }
        loop.intervals = self._intervals(widest)

    def _split(self, proven: list[GuardAndWords]) -> Split | None:
        """Bounds that depend on p, of the widest range, for which these checks hold."""
        sides, bounded = self._sides(proven), self.loop.bounded
        alone = sides is None
        if sides is None:
            factors = {name for pair in self._factors(proven) for name in inputs(*pair)}
            # Cotangents, which are the largest words, lie behind all others.
            last = max(self.loop.loads, key=lambda word: (self.loop.loads[word] in factors, word[1]))
            sides = {self.loop.loads[last]}, factors - {self.loop.loads[last]}
        bits, width = self.loop.bits, self.forms.w.width
        left, right = (frozenset(side & bounded) for side in sides)
        for rest in (width - HEADROOM[0], bits):
            for total in range(2 * bits, 2 * bits - 3, -1):
                for high in (width - room for room in HEADROOM):
                    made = Split(left, right, total, (total + 1) // 2 if alone else total - high, high, rest)
                    if left and right and bits < high < total and self._suffices(made, proven):
                        return made
        return None

    def _suffices(self, split: Split, proven: list[GuardAndWords]) -> bool:
        """Whether these checks hold, and factors of products are as narrow as they are now (`_NarrowTrees`)."""
        for p in (split.low, split.high):
            intervals = self._intervals({name: split.bits(name, p) for name in self.loop.bounded})
            if not all(self._holds(guard, intervals) for guard in proven):
                return False
            if any(
                max(map(abs, intervals.of(x))) > self.forms.w.sign // 2 for pair in self._factors(proven) for x in pair
            ):
                return False
        return True

    def _factors(self, proven: list[GuardAndWords]) -> list[tuple[Expr, Expr]]:
        """The factors of the products of a pass, and of those that these checks test."""
        loop, pairs = self.loop, []
        trees = [*loop.stores.values(), *loop.sums.values(), *loop.accumulators.values(), *loop.additions.values()]
        for tree, words in proven:
            trees += [words[name] for name in inputs(tree)]
            product = product_tested_by(tree, self.forms.w)
            if product is not None:
                x, y = (self.forms.normal(part, words) for part in product.args)
                pairs.append((x, y))
        products = [node for node in nodes(*trees) if node.op in PRODUCTS]
        return [*pairs, *((node.args[0], node.args[1]) for node in products)]

    def _sides(self, proven: list[GuardAndWords]) -> tuple[set[str], set[str]] | None:
        """The inputs of left and of right factors; which side is the left one is chosen for each component of the graph."""
        together: dict[str, set[tuple[str, bool]]] = {}
        for pair in self._factors(proven):
            given = [(name, side) for side, tree in enumerate(pair) for name in inputs(tree)]
            for (a, i), (b, j) in pairwise(given):
                together.setdefault(a, set()).add((b, i != j))
                together.setdefault(b, set()).add((a, i != j))
        found: dict[str, bool] = {}
        for start in together:
            todo = [(start, False)] if start not in found else []
            while todo:
                name, side = todo.pop()
                if name not in found:
                    found[name] = side
                    todo += [(other, side != differs) for other, differs in together[name]]
                elif found[name] != side:
                    return None
        sides = ({name for name in found if found[name] is side} for side in (False, True))
        return (next(sides), next(sides)) if found else None

    def _least_checks(self, names: Collection[str]) -> tuple[int, list[GuardAndWords]]:
        """(the most bits of words for which as few checks are left as for the fewest bits, these checks)"""

        def left(bits: int) -> list[GuardAndWords]:
            intervals = self._intervals(dict.fromkeys(names, bits))
            return [guard for guard in self.run.guards if not self._holds(guard, intervals)]

        width = self.forms.w.width
        # Where numbers have points other than the format's, these are chosen so that words are full, but for a bit.
        code = [self.flow.code[at] for at in self.addresses]
        full = any(shifts(i.opcode) and i.imm != self.forms.w.frac for i in code)
        low, high = width - FEWEST_BITS if full else width // 2 + FEWEST_BITS, width
        best = left(low)
        while high - low > 1:
            middle = width - 1 if high == width else (low + high) // 2
            found = left(middle)
            if len(found) == len(best):
                low, best = middle, found
            else:
                high = middle
        return low, best

    def _intervals(self, bits: Mapping[str, int]) -> Intervals:
        """Bounds of trees where these inputs are numbers of that many bits and a sign."""
        loop, word_bits = self.loop, self.forms.w.width - 1
        bounds = {name: (-(1 << k), (1 << k) - 1) for name, k in bits.items()}
        first = Intervals(self.forms, bounds)
        # Terms of sums do not depend on partial sums, so their bounds are those of single passes.
        # A sum that was tested may hold terms that come later in the program's order.
        sizes = [max(map(abs, first.of(loop.additions[word]))) for word in self.spread]
        spread = [(-size, size) for size in sizes]
        for word in dict.fromkeys((*self.met, *self.spread)):
            terms = [first.of(loop.sums[other]) for other in self.met.get(word, ())]
            bounds[loop.loads[word]] = self._widened(bits.get(loop.loads[word], word_bits), terms + spread)
        for r, tree in loop.accumulators.items():
            bounds[register(r)] = self._widened(bits.get(register(r), word_bits), [first.of(tree)] * (loop.lanes - 1))
        return Intervals(self.forms, bounds)

    def _widened(self, bits: int, added: list[Bounds]) -> Bounds:
        """Bounds of a partial sum that begins with a number of that many bits, for every order of its terms."""
        low, high = -(1 << bits), (1 << bits) - 1
        return low + sum(min(least, 0) for least, _ in added), high + sum(max(most, 0) for _, most in added)

    def _holds(self, guard: GuardAndWords, intervals: Intervals) -> bool:
        tree, words = guard
        if tree.op == "and" and is_truth(tree):
            return all(self._holds((part, words), intervals) for part in tree.args)
        tested = sum_tested_by(tree)
        if tested is not None:
            x, y = (self.forms.normal(part, words) for part in tested.args)
            parts: list[Form] = [self.forms.form(x), self.forms.form(y)]
            parts.append(self.forms.combined(x, y, 1 if tested.op == "add" else -1))
            return all(intervals.fits(intervals.exact(form)) for form in parts)
        product = product_tested_by(tree, self.forms.w)
        if product is not None and isinstance(product.param, int):
            x, y = (self.forms.normal(part, words) for part in product.args)
            added = half(product.param, self.forms.w) if product.op == "mulround" else 0
            low, high = (end + added >> product.param for end in intervals.product(x, y))
            return intervals.fits((low, high))
        return intervals.of(self.forms.normal(tree, words))[0] > 0
