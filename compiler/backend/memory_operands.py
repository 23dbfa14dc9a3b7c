"""Memory operands: an instruction reads or updates a word of memory itself, where the word was brought into a register for it.

    Within((Local t; ld.add t, [x]), … d ± f(t, b) …)     →  … d ± f([x], b) …
    Within((Local t; exch t, [x]), … d ± f(t, b) …)       →  … d ± f([x], b) …       t is only read
    Within((Local t; exch t, [x]), … t ± f(a, b) …)       →  … [x] ± f(a, b) …       t is only updated

Conditions: every use of t has a form with an operand in memory, which `opcode_facts.memory_forms` finds in the instruction table; nothing
between writes the address or the word, or, after an exchange, reads the word.
Correct because the word in memory is at each use the word that t would hold. Traps: the sums and products are the same; an
access that was made for a use that is not reached is no longer made. Cotangents: that of the word takes the place of that of t.
Cost: an access takes two cycles more than a register, and the pair of instructions that is saved takes fourteen
(docs/reference/timing.md); words with more uses than that pays for stay in registers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis
from retrograd.compiler.ir.instruction_selection import (
    by_registers,
    commutes,
    executed,
    expected_trips,
    facts,
    memory_forms,
    operand,
    trip_values,
)
from retrograd.compiler.ir.traversal import map_bodies, map_children, map_operands, operands_of, rebuilt, splice, walk
from retrograd.compiler.passes.forward_substitution import forward_substitute, substitute_erased
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

#: uses of a word, for each time that it is brought in and put back, up to which their accesses take no more cycles than that
_MOST = 7

#: body -> its statements, each an object of its own, and the words that they bring in
Surveys = dict[int, "tuple[ir.Block, Chooser]"]


def use_memory_operands(module: ir.Module, *, erased: bool = False, surveys: Surveys | None = None) -> ir.Module:
    """Let instructions access memory where that saves bringing a word into a register.

    `erased`: also where the copy of the word, or the zero behind it, is then erased. `surveys`: as found before for the same module, and of
    new bodies found here.
    """
    accesses = AccessAnalysis(module)
    known: Surveys = {} if surveys is None else surveys

    def rewrite(body: ir.Block) -> ir.Block:
        own, chooser = surveyed(body, known, accesses, module.format, erased)
        return chooser.rewritten(own) if chooser.replaced else own

    return map_bodies(module, rewrite)


def distinct_statements(block: ir.Block, seen: set[int]) -> ir.Block:
    """The block, with an object of its own for each place of a statement."""
    out: list[ir.Node] = []
    for node in block:
        own: ir.Node = node
        if not isinstance(node, ir.Op | ir.Local | ir.Delocal):
            own = map_children(node, lambda inner: distinct_statements(inner, seen))
        elif id(node) in seen:
            own = node._replace()
        seen.add(id(own))
        out.append(own)
    return rebuilt(block, out)


def surveyed(
    body: ir.Block, known: Surveys, accesses: AccessAnalysis, w: Format, erased: bool
) -> tuple[ir.Block, Chooser]:
    """The survey of a body, which is made once."""
    if id(body) not in known:
        distinct = distinct_statements(body, set())
        known[id(body)] = distinct, Chooser(distinct, accesses, w, erased)
    return known[id(body)]


class _Use(NamedTuple):
    node: ir.Node
    weight: int


class Fetch(NamedTuple):
    """A word in a variable, and how often that is.

    `ends`: the statements that make the variable, bring the word in, put it back or erase it, and free the variable; the last two are left out
    where a `Within` implies them. `life`: the statements that name the variable; `tail`, `body`: those between, with blocks in them.
    """

    op: ir.Op
    life: list[_Use]
    ends: ir.Block
    tail: ir.Block
    body: ir.Block
    weight: int


def _put_back(fetch: ir.Op, life: list[ir.Node]) -> ir.Block:
    """The statements at the end of a variable's life that put the word back or erase it, and free the variable; none if others do."""
    last = life[-2]
    if len(life) < 4 or not isinstance(last, ir.Op):
        return ()
    erased = _erases(last)
    if erased and fetch.opcode.name == "ld.add":
        return tuple(life[-2:])
    # After an exchange an erasure finds zero.
    before = life[-3] if erased else last
    same = isinstance(before, ir.Op) and ir.invert_node(fetch)._replace(span=None) == before._replace(span=None)
    return tuple(life[-3 if erased else -2 :]) if same else ()


def _erases(node: ir.Node) -> bool:
    return isinstance(node, ir.Op) and node.opcode.name == "erase"


class Chooser:
    """The words of a body that are brought into variables, and those of them that instructions access in memory instead."""

    def __init__(self, body: ir.Block, accesses: AccessAnalysis, w: Format, erased: bool) -> None:
        self.accesses = accesses
        self.erased = erased
        self.w = w
        #: variable -> the statements that name it, since it became live
        self.lives: dict[ir.Operand | None, list[_Use]] = {}
        self.fetched: list[Fetch] = []
        #: statement that goes -> the statement in its place, or None
        self.replaced: dict[int, ir.Op | None] = {}
        self.survey(body, 1)
        self.choose()

    def survey(self, block: ir.Block, weight: int, computing: bool = False, body: ir.Block = ()) -> None:
        """Note the uses of variables. `weight`: how often the block runs; `body`: of the Within whose compute block this is."""
        born: dict[ir.Operand | None, ir.Local] = {}
        brought: dict[ir.Operand | None, int] = {}
        made: dict[ir.Operand | None, ir.Local] = {}
        for i, node in enumerate(block):
            if isinstance(node, ir.Local):
                self.lives[node.var] = []
            for x in dict.fromkeys(operands_of(node)):
                if isinstance(x, ir.Var):
                    self.lives.setdefault(x, []).append(_Use(node, weight))
            match node:
                case ir.Local(var, checked):
                    if not checked:
                        born[var] = node
                case ir.Op(opcode, d):
                    if d in born:
                        local = born.pop(d)
                        if opcode.name in ("ld.add", "exch") and node.region is not None:
                            brought[d], made[d] = i, local
                case ir.Delocal(var, checked):
                    first = brought.pop(var, None)
                    fetch = None if first is None else block[first]
                    if checked or first is None or not isinstance(fetch, ir.Op):
                        continue
                    last = _put_back(fetch, [use.node for use in self.lives[var]])
                    if last and (self.erased or not _erases(last[-2])):
                        ends = made[var], fetch, *last
                        self.fetched.append(Fetch(fetch, self.lives[var], ends, block[first + 1 : i], (), 2 * weight))
                case ir.Within(compute, inner):
                    self.survey(compute, 2 * weight, True, inner)
                    self.survey(inner, weight)
                case ir.For(body=inner):
                    self.survey(inner, weight * expected_trips(node, self.w))
                case ir.If() | ir.While():
                    for inner in ir.children(node):
                        self.survey(inner, weight)
                case ir.Call() | ir.Check() | ir.External():
                    pass
        if computing:
            for x, i in brought.items():
                fetch = block[i]
                assert isinstance(fetch, ir.Op)
                self.fetched.append(Fetch(fetch, self.lives[x], (made[x], fetch), block[i + 1 :], body, weight))

    # ------------------------------------------------------------------ choice

    def choose(self) -> None:
        # Words that are read come first: an update by them then takes the register form of its target.
        for found in self.fetched:
            self.consider(found, reading_word)
        for found in self.fetched:
            if found.op.opcode.entry.name == "exch" and id(found.op) not in self.replaced:
                self.consider(found, updating_word)

    def consider(self, found: Fetch, form_of: Callable[[ir.Op, ir.Var, ir.Op], ir.Op | None]) -> None:
        """Replace the uses of the word, if all of them can be replaced."""
        op, t = found.op, found.op.d
        assert isinstance(t, ir.Var)
        named = [use.node for use in found.life]
        first, last = named[:2], named[2 - len(found.ends) :] if len(found.ends) > 2 else []
        uses = found.life[2 : len(named) - len(last)]
        if list(map(id, [*first, *last])) != list(map(id, found.ends)):
            return
        if not uses or 2 * sum(use.weight for use in uses) > _MOST * found.weight:
            return
        new: dict[int, ir.Op | None] = {}
        for node, _ in uses:
            form = form_of(node, t, op) if isinstance(node, ir.Op) and id(node) not in self.replaced else None
            if form is None:
                return
            new[id(node)] = form
        if self.stays(found, [use.node for use in uses]):
            self.replaced |= {**new, **dict.fromkeys(map(id, found.ends))}

    def stays(self, found: Fetch, uses: Iterable[ir.Node]) -> bool:
        """Whether the address and the word stay as they are while t would hold the word."""
        op, mine = found.op, {id(node) for node in uses} | {id(node) for node in found.ends}
        exchanged = op.opcode.entry.name == "exch"
        needs = self.accesses.of(op)
        for part in (found.tail, found.body):
            if not exchanged and part is found.body and not any(id(node) in mine for node in walk(part)):
                # The word is not read there; before the end of the Within it has not changed.
                continue
            for node in part:
                if id(node) in mine and not ir.children(node):
                    continue
                access = self.accesses.of(node)
                if access.barrier or not access.writes.isdisjoint(needs.reads):
                    return False
                touched = access.loads | access.stores if exchanged else access.stores
                if (None in touched or op.region in touched) and not all(
                    self.apart(inner, op, exchanged) for inner in walk((node,))
                ):
                    return False
        return True

    def apart(self, node: ir.Node, op: ir.Op, exchanged: bool) -> bool:
        """Whether a statement, the blocks in it aside, leaves the word alone that the op brings in."""
        if isinstance(node, ir.Call):
            access = self.accesses.of(node)
            touched = access.loads | access.stores if exchanged else access.stores
            return None not in touched and op.region not in touched
        if not isinstance(node, ir.Op) or not facts(node.opcode).memory:
            return not isinstance(node, ir.External)
        if not exchanged and not facts(node.opcode).stores:
            return True
        if node.region is not None and node.region is not op.region:
            return True
        if not isinstance(node.a, ir.Const) or not isinstance(op.a, ir.Const):
            return False
        return self.w.wrap(node.a.word + node.imm) != self.w.wrap(op.a.word + op.imm)

    # ------------------------------------------------------------------ rewriting

    def rewritten(self, block: ir.Block) -> ir.Block:
        out: list[ir.Node] = []
        for node in block:
            if id(node) in self.replaced:
                new = self.replaced[id(node)]
                out.extend([] if new is None else [new])
            else:
                out.append(map_children(node, self.rewritten))
        return block if rebuilt(block, out) is block else splice(out)


# ---------------------------------------------------------------- forms of instructions

_PLACES = {"rd": "d", "ra": "a", "rb": "b"}


def updating_word(op: ir.Op, t: ir.Var, word: ir.Op) -> ir.Op | None:
    """The update of t as an update of the word; None where no instruction does that."""
    if op.d is not t or t is op.a or t is op.b:
        return None
    return _form(op, word, {"a": op.a, "b": op.b}, stores=True)


def reading_word(op: ir.Op, t: ir.Var, word: ir.Op) -> ir.Op | None:
    """The update by a function of t, with the word in place of t; None where no instruction does that."""
    if op.d is t or (op.a is t) == (op.b is t):
        return None
    return _form(op, word, {"a": op.a, "b": op.b}, stores=False, read=t)


def _form(
    op: ir.Op, word: ir.Op, given: dict[str, ir.Operand | None], *, stores: bool, read: ir.Var | None = None
) -> ir.Op | None:
    for opcode, meaning in memory_forms(op.opcode):
        if facts(opcode).stores != stores:
            continue
        stands = {p: x for p, x in given.items() if p in meaning}
        if not stores and meaning.get("a" if given["a"] is read else "b") != "m":
            if not commutes(op.opcode):
                continue
            stands = {"a": given["b"], "b": given["a"]}
        places: dict[str, ir.Operand | None] = {meaning[p]: x for p, x in stands.items()}
        if not stores:
            places["d"] = op.d
        if "d" in places and not isinstance(places["d"], ir.Var):
            continue
        made = op._replace(
            opcode=opcode, d=places.get("d"), a=word.a, b=places.get("b"), imm=word.imm, region=word.region
        )
        if all(operand(made, _PLACES[x]) != operand(made, _PLACES[y]) for x, y in opcode.distinct):
            return made
    return None


# -----------------------------------------------------------------------------
# Register promotion: a word of memory that neighbouring statements bring in one after the other stays in a register for all of them.
#
#     Within((Local t; exch t, [x]), a); y; Within((Local u; exch u, [x]), b)
#         →  Local r; exch r, [x]; a[t := r]; y; b[u := r]; exch r, [x]; Delocal r
#
# x is a sum of one variable and a constant; y accesses neither the word nor a word that may be the same: words of other regions, and at
# other constants of the same variable, are different. Statements that access the word in memory access r instead. A word that is only
# read is loaded, and not exchanged. The stretch may contain loops, where it saves most.
# Conditions: no statement of the stretch changes the address. The first and the last one certainly access the word, and test no promise
# before that, such as the bounds of an index.
# Correct because r holds at each use the word that t or u would hold. Traps: unchanged, except that the word may still be in r.
# Choice: a stretch saves the instructions that bring the word in, unless `memory_operands.py` saves them without a register.
# Cost: registers; `max_live` bounds the registers that are live at once.
# Source: K. D. Cooper and J. Lu, Register promotion in C programs, PLDI 1997.

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


# -----------------------------------------------------------------------------
# Operand selection: where the words of memory that a program works on are read and written, in registers or in memory.
#
#     promote to registers → substitute temporaries → use memory operands
#
# The first step has two versions: words that are brought in anyway stay in registers, or all words that are used often do. For each body the
# version that executes fewer instructions is taken, by the cost model.


def select_operands(module: ir.Module, *, derived: bool = False) -> ir.Module:
    """The module with words of memory in registers or as operands, as the fewest instructions are executed.

    `derived`: erasures in the module are the compiler's own, and may be left out.
    """
    if derived:
        module = substitute_erased(module)
    surveys: Surveys = {}
    promoted = [promote_to_registers(module, erased=derived, eager=x, surveys=surveys) for x in (False, True)]
    first = _selected(module, promoted[0], derived, surveys)
    if promoted[1] is module:
        return first
    second = _selected(module, promoted[1], derived, surveys)
    w = module.format

    def better(one: ir.Block, other: ir.Block) -> ir.Block:
        return other if one is not other and executed(other, w) < executed(one, w) else one

    procedures = {
        name: replace(p, body=better(p.body, second.procedures[name].body)) for name, p in first.procedures.items()
    }
    entry, discarded = better(first.entry, second.entry), first.discarded | second.discarded
    return replace(module, entry=entry, procedures=procedures, discarded=discarded)


def _selected(module: ir.Module, promoted: ir.Module, derived: bool, surveys: Surveys) -> ir.Module:
    """The promoted version with operands in memory; where no word was promoted, no temporary has become superfluous."""
    if promoted is module:
        return use_memory_operands(module, erased=derived, surveys=surveys)
    promoted = forward_substitute(substitute_erased(promoted) if derived else promoted)
    return use_memory_operands(promoted, erased=derived)
