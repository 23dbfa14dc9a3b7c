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

from collections.abc import Callable, Iterable
from typing import NamedTuple

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.cost_model import expected_trips
from retrograd.compiler.ir.effects import AccessAnalysis
from retrograd.compiler.ir.opcode_facts import commutes, facts, memory_forms, operand
from retrograd.compiler.ir.traversal import map_bodies, map_children, operands_of, rebuilt, splice, walk
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
