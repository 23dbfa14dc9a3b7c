"""Register promotion: a word of memory that neighbouring statements bring in one after the other stays in a register for all of them.

    Within((Local t; exch t, [x]), a); y; Within((Local u; exch u, [x]), b)
        →  Local r; exch r, [x]; a[t := r]; y; b[u := r]; exch r, [x]; Delocal r

x is a sum of one variable and a constant; y accesses neither the word nor a word that may be the same: words of other regions, and at
other constants of the same variable, are different. Statements that access the word in memory access r instead. A word that is only
read is loaded, and not exchanged. The stretch may contain loops, where it saves most.
Conditions: no statement of the stretch changes the address. The first and the last one certainly access the word, and test no promise
before that, such as the bounds of an index.
Correct because r holds at each use the word that t or u would hold. Traps: unchanged, except that the word may still be in r.
Choice: a stretch saves the instructions that bring the word in, unless `memory_operands.py` saves them without a register.
Cost: registers; `max_live` bounds the registers that are live at once.
Source: K. D. Cooper and J. Lu, Register promotion in C programs, PLDI 1997.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from retrograd.compiler.backend.memory_operands import Chooser, Fetch, Surveys, surveyed
from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.cost_model import expected_trips, trip_values
from retrograd.compiler.ir.effects import AccessAnalysis
from retrograd.compiler.ir.opcode_facts import by_registers, facts, operand
from retrograd.compiler.ir.traversal import map_bodies, map_children, map_operands, splice, walk
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

_LOAD, _UNLOAD, _EXCHANGE, _SWAP = TABLE["ld.add"], TABLE["ld.sub"], TABLE["exch"], TABLE["swap"]


def promote_to_registers(
    module: ir.Module,
    *,
    erased: bool = False,
    eager: bool = False,
    max_live: int = 40,
    surveys: Surveys | None = None,
) -> ir.Module:
    """Keep words in registers while neighbouring statements use them; at most `max_live` at once in a body.

    `erased`: as in `use_memory_operands`. `eager`: also words that are accessed in memory, in the hope that the other operands of these
    accesses can then stay in memory. The module itself where no word is promoted. `surveys`: of an earlier call for the same module.
    """
    accesses = AccessAnalysis(module)
    known = {} if surveys is None else surveys
    discarded = set(module.discarded)
    changed = False

    def rewrite(body: ir.Block) -> ir.Block:
        nonlocal changed
        if not any(map(_brings_in, walk(body))):
            return body
        own, chooser = surveyed(body, known, accesses, module.format, erased)
        promoter = _Promoter(chooser, chooser.accesses, module.format, eager)
        promoter.choose(own, 1, max_live)
        if not promoter.registers:
            return body
        changed = True
        discarded.update(r for t, r in promoter.stood_for if t in module.discarded)
        return promoter.rewritten(own)

    made = map_bodies(module, rewrite)
    return replace(made, discarded=frozenset(discarded)) if changed else module


def _brings_in(node: ir.Node) -> bool:
    return isinstance(node, ir.Op) and node.opcode.entry.name in ("exch", "ld")


class _Word(NamedTuple):
    """The word at a variable, or at zero, plus a constant."""

    region: ir.Region
    base: ir.Operand
    offset: int


@dataclass(slots=True)
class _Accesses:
    """The accesses of one word in a block, by the index of the statement in the block.

    `ends`: indices of statements that certainly access it, and test no promise.
    """

    ops: list[tuple[int, ir.Op]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


class _Stretch(NamedTuple):
    """Statements `first` to `last` of a block, for which a word stays in a register. `fetches`: the fetches that it replaces."""

    first: int
    last: int
    ops: list[ir.Op]
    fetches: list[Fetch]
    saved: float


@dataclass(slots=True)
class _Ends:
    """Statements in front of a statement of a block, and behind it."""

    before: list[ir.Node] = field(default_factory=list)
    behind: list[ir.Node] = field(default_factory=list)


class _Promoter:
    def __init__(self, chooser: Chooser, accesses: AccessAnalysis, w: Format, eager: bool) -> None:
        self.accesses = accesses
        self.w = w
        self.fetches = {id(f.op): f for f in chooser.fetched if _is_whole(f)}
        #: access that brings a word in -> how many instructions it saves that the word is in a register
        self.saved = {
            at: f.weight if at not in chooser.replaced else sum(use.weight for use in f.life[2:]) / 2 if eager else 0
            for at, f in self.fetches.items()
        }
        #: access of a promoted word -> the register
        self.registers: dict[int, ir.Var] = {}
        #: statement that names a variable of a fetch -> the registers in place of such variables
        self.names: dict[int, dict[ir.Operand, ir.Var]] = defaultdict(dict)
        self.gone: set[int] = set()
        #: (variable of a fetch, register in its place)
        self.stood_for: list[tuple[ir.Operand, ir.Var]] = []
        #: (identity of a block, index) -> the statements around that statement
        self.ends: dict[tuple[int, int], _Ends] = defaultdict(_Ends)

    def word(self, op: ir.Op) -> _Word | None:
        if op.region is None or op.a is None:
            return None
        if isinstance(op.a, ir.Const):
            return _Word(op.region, ir.ZERO, self.w.wrap(op.a.word + op.imm))
        return _Word(op.region, op.a, self.w.wrap(op.imm))

    # ------------------------------------------------------------------ choice, outer blocks first

    def choose(self, block: ir.Block, weight: int, room: int) -> None:
        """Choose stretches of the block, then of the blocks in it. `weight`: how often it runs."""
        if not any(map(_brings_in, walk(block))):
            return
        if room > 0:
            stretches = sorted(self.stretches(block, weight), key=lambda s: -s.saved)[:room]
            for stretch in stretches:
                self.take(block, stretch)
            room -= len(stretches)
        for node in block:
            match node:
                case ir.Within(compute, inner):
                    self.choose(compute, 2 * weight, room)
                    self.choose(inner, weight, room)
                case ir.For(body=inner):
                    self.choose(inner, weight * expected_trips(node, self.w), room)
                case ir.If() | ir.While():
                    for inner in ir.children(node):
                        self.choose(inner, weight, room)
                case ir.Op() | ir.Local() | ir.Delocal() | ir.Call() | ir.Check() | ir.External():
                    pass

    def stretches(self, block: ir.Block, weight: int) -> Iterator[_Stretch]:
        """The stretches of a block that save more than they cost."""
        words: dict[_Word, _Accesses] = {}
        anywhere: set[int] = set()
        changed: dict[ir.Operand, set[int]] = defaultdict(set)
        touched: dict[ir.Region, dict[ir.Operand, set[int]]] = defaultdict(lambda: defaultdict(set))
        place: dict[int, int] = {}
        for i, node in enumerate(block):
            access = self.accesses.of(node)
            for var in access.writes:
                changed[var].add(i)
            for inner in walk((node,)):
                place[id(inner)] = i
                match inner:
                    case ir.Op():
                        if facts(inner.opcode).memory and id(inner) not in self.registers:
                            word = self.word(inner)
                            if word is None:
                                anywhere.add(i)
                            else:
                                words.setdefault(word, _Accesses()).ops.append((i, inner))
                                touched[word.region][word.base].add(i)
                    case ir.Local(var) | ir.Delocal(var) | ir.For(var):
                        changed[var].add(i)
                    case ir.Call() | ir.External():
                        anywhere.add(i)
                    case ir.Within() | ir.If() | ir.While() | ir.Check():
                        pass
            if not access.promises:
                for word in set(self.certain((node,))):
                    words[word].ends.append(i)
        obstacles: dict[tuple[ir.Region, ir.Operand], list[int]] = {}
        for word, found in words.items():
            if not any(self.saved.get(id(op)) for _, op in found.ops):
                continue
            key = word.region, word.base
            if key not in obstacles:
                others = (at for base, at in touched[word.region].items() if base != word.base)
                obstacles[key] = sorted(anywhere.union(changed.get(word.base, ()), *others))
            yield from self.between(block, word, found, obstacles[key], place, weight)

    def certain(self, block: Iterable[ir.Node]) -> Iterator[_Word]:
        """The words that the statements access whenever they run."""
        for node in block:
            match node:
                case ir.Op():
                    word = self.word(node) if facts(node.opcode).memory and id(node) not in self.registers else None
                    if word is not None:
                        yield word
                case ir.Within(compute, body):
                    yield from self.certain(compute)
                    yield from self.certain(body)
                case ir.For(body=body):
                    if node.some or trip_values(node, self.w):
                        yield from self.certain(body)
                case ir.If() | ir.While() | ir.Local() | ir.Delocal() | ir.Call() | ir.Check() | ir.External():
                    pass

    def between(
        self,
        block: ir.Block,
        word: _Word,
        found: _Accesses,
        obstacles: list[int],
        place: dict[int, int],
        weight: int,
    ) -> Iterator[_Stretch]:
        """The stretches of a word between the statements that it cannot cross. `place`: the index in the block of each statement in it."""
        gaps: dict[int, list[int]] = defaultdict(list)
        crossed = set(obstacles)
        for i in found.ends:
            if i not in crossed:
                gaps[bisect_left(obstacles, i)].append(i)
        direct = set(map(id, block))
        for ends in gaps.values():
            first, last = ends[0], ends[-1]
            ops = [op for i, op in found.ops if first <= i <= last]
            fetches = [
                f
                for f in (self.fetches.get(id(op)) for op in ops)
                # The variable of a compute block lives on behind this block.
                if f is not None
                and not (len(f.ends) == 2 and id(f.op) in direct)
                and all(place[id(use.node)] <= last for use in f.life if not _frees(use.node))
                and self.is_alone(f, word)
            ]
            saved = sum(self.saved[id(f.op)] for f in fetches)
            if saved > 2 * weight:
                yield _Stretch(first, last, ops, fetches, saved - 2 * weight)

    def is_alone(self, fetch: Fetch, word: _Word) -> bool:
        """Whether the fetched word is the variable as long as that lives."""
        exchanged = fetch.op.opcode is _EXCHANGE
        t = fetch.op.d
        if not exchanged and any(_writes(use.node, t) for use in fetch.life if not _is_in(use.node, fetch.ends)):
            return False
        return not any(
            isinstance(node, ir.Op)
            and facts(node.opcode).memory
            and (exchanged or facts(node.opcode).stores)
            and not _is_in(node, fetch.ends)
            and self.word(node) == word
            for part in (fetch.tail, fetch.body)
            for node in walk(part)
        )

    def take(self, block: ir.Block, stretch: _Stretch) -> None:
        first = stretch.fetches[0].op
        assert isinstance(first.d, ir.Var)
        register = ir.Var(first.d.name, first.d.kind, first.d.span)
        stored = any(facts(op.opcode).stores for op in stretch.ops)
        into = first._replace(opcode=_EXCHANGE if stored else _LOAD, d=register)
        back = into._replace(opcode=_EXCHANGE if stored else _UNLOAD, span=block[stretch.last].span)
        # The variable of the address may be promoted, too. Then these statements name its register, as the first access does.
        self.names[id(into)] = self.names[id(back)] = self.names[id(first)]
        self.ends[id(block), stretch.first].before += [ir.Local(register, False, first.span), into]
        self.ends[id(block), stretch.last].behind[:0] = [back, ir.Delocal(register, False, first.span)]
        self.registers.update(dict.fromkeys(map(id, stretch.ops), register))
        for fetch in stretch.fetches:
            assert fetch.op.d is not None
            self.stood_for.append((fetch.op.d, register))
            self.gone.update(map(id, fetch.ends))
            for use in fetch.life:
                self.names[id(use.node)][fetch.op.d] = register

    # ------------------------------------------------------------------ rewriting

    def rewritten(self, block: ir.Block) -> ir.Block:
        out: list[ir.Node] = []
        for i, node in enumerate(block):
            around = self.ends.get((id(block), i))
            if around is not None:
                out += map(self.renamed, around.before)
            if id(node) not in self.gone:
                out.append(map_children(self.renamed(node), self.rewritten))
            if around is not None:
                out += map(self.renamed, around.behind)
        return splice(out)

    def renamed(self, node: ir.Node) -> ir.Node:
        new: ir.Node = node
        register = self.registers.get(id(node))
        if isinstance(node, ir.Op) and register is not None:
            if node.opcode is _EXCHANGE:
                new = node._replace(opcode=_SWAP, a=register, imm=0, region=None)
            else:
                new = by_registers(node, register)
        names = self.names.get(id(node))
        return new if names is None else map_operands(new, lambda x: names.get(x, x))


def _is_in(node: ir.Node, nodes: ir.Block) -> bool:
    return any(node is x for x in nodes)


def _frees(node: ir.Node) -> bool:
    return isinstance(node, ir.Delocal) or (isinstance(node, ir.Op) and node.opcode.name == "erase")


def _is_whole(fetch: Fetch) -> bool:
    """Whether the ends of the variable's life are those of the fetch."""
    named = [use.node for use in fetch.life]
    ends = len(fetch.ends) - 2
    last = named[len(named) - ends :] if ends else []
    return list(map(id, (*named[:2], *last))) == list(map(id, fetch.ends))


def _writes(node: ir.Node, var: ir.Operand | None) -> bool:
    """Whether a statement may change a variable that it names."""
    if isinstance(node, ir.Op):
        return any(operand(node, place) is var for place in facts(node.opcode).written)
    return isinstance(node, ir.Call | ir.External | ir.Local | ir.Delocal)
