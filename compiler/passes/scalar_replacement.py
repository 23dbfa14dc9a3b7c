"""replace_arrays_by_scalars: the words of an array that is only ever accessed at constant places become variables.

    ld t, [k];  st [k], x;  exch t, [k]            →  t += v;  v += x;  swap t, v          v in place of M[k]
    Within((Local t, exch t, [k]), b)              →  b[t := v]                           where b does not access M[k]
    ld t, [k] of constants that nothing writes     →  t += M[k]

An array of the program's own is zero outside of its life. So v lives in the smallest part of the program that holds all
accesses and is run through once in the life of the array: within a Within, if all are there, else in a block from the
first access to the last. A loop runs more than once, and so does what a Within computes; but a Within whose body changes
neither the array nor what this was computed from leaves it zero if it was, however often it runs.

An array of the arguments is exchanged into variables at the ends of the entry, if that makes the program shorter.

Words count by how often they are used, a loop as eight passes; those of most use per word come first, as long as there is room. An
array whose address goes to a procedure stays, and all do if the host looks on. Traps are unchanged, except that at a trap
an argument may be in registers still; the checks that a word was zero hold, and go, where nothing else could have changed
it. Cotangents are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from retrograd.compiler.ir.alpha_equivalence import Renaming
from retrograd.compiler.ir.effects import AccessAnalysis, clobbered_between, private_regions, union
from retrograd.compiler.ir.opcode_facts import facts
from retrograd.compiler.ir.statements import (
    Block,
    Call,
    Check,
    Const,
    Delocal,
    External,
    For,
    If,
    Kind,
    Local,
    Module,
    Node,
    Op,
    Region,
    Var,
    While,
    Within,
    children,
    with_children,
)
from retrograd.compiler.ir.traversal import bodies, splice, walk
from retrograd.isa.entries import Opcode
from retrograd.isa.table import TABLE

#: a loop is taken to run so many times
_LOOP = 8
#: deeper than this, loops count no more
_MOST_WEIGHT = _LOOP**6
#: the words of a region that are accessed
Word = tuple[Region, int]
Words = frozenset[Word]
_NONE: Words = frozenset()


def replace_arrays_by_scalars(
    module: Module, *, max_live: int = 96, largest: int = 64, largest_argument: int = 32
) -> Module:
    """Promote arrays of at most `largest` words, of arguments `largest_argument`; `max_live` variables at most."""
    accesses = AccessAnalysis(module)
    constants = _constants(module, accesses)
    survey = _Survey(module)
    local = {r for r in private_regions(module) - survey.elsewhere if len(survey.bodies.get(r, ())) == 1}
    entrances: set[Region] = set()
    if module.arguments is not None:
        entrances = {r for r in module.arguments if survey.bodies.get(r) == {0}} - survey.elsewhere
    room = max_live
    chosen: set[Region] = set()
    for region in sorted(local | entrances, key=lambda r: -survey.weights[r] / len(survey.words[r])):
        count = len(survey.words[region])
        if region in local:
            worth = count <= largest
        else:
            # Twice for each word at the ends of the entry.
            worth = count <= largest_argument and survey.weights[region] > 2 * count
        if worth and count <= room:
            room -= count
            chosen.add(region)
    if not chosen and not constants:
        return module
    procedures = {}
    entry = _Promoter(survey, accesses, module.entry, chosen, local, constants).body(entrances)
    for name, p in module.procedures.items():
        procedures[name] = replace(p, body=_Promoter(survey, accesses, p.body, chosen, local, constants).body())
    return replace(module, entry=entry, procedures=procedures)


def _constants(module: Module, accesses: AccessAnalysis) -> set[Region]:
    """The arrays of constants that nothing writes."""
    stored = union(accesses.block(block) for block in bodies(module)).stores
    if None in stored:
        return set()
    return {region for region in module.regions if region.data and region not in stored}


class _Survey:
    """Where arrays are accessed: in which bodies, at which words, how often."""

    def __init__(self, module: Module) -> None:
        self.w = module.format
        self.bodies: dict[Region, set[int]] = {}
        self.words: dict[Region, set[int]] = {}
        self.weights: dict[Region, float] = {}
        #: what is put into a word, or taken out
        self.kinds: dict[Word, Kind] = {}
        #: regions that are accessed in other ways, too
        self.elsewhere: set[Region] = set()
        #: statement -> the words that it accesses; the statements are kept so that their numbers stay theirs
        self.touched: dict[int, tuple[Node, Words]] = {}
        known = {region for region in module.regions if region.address is not None}
        looks = False
        anywhere = False
        for number, body in enumerate(bodies(module)):
            self.block(body, number, 1)
            for node in walk(body):
                looks |= isinstance(node, External)
                anywhere |= isinstance(node, Op) and node.region is None and facts(node.opcode).memory
        if looks or anywhere:
            self.elsewhere |= known
        self.elsewhere |= self.bodies.keys() - known

    def block(self, block: Block, number: int, weight: float) -> Words:
        found = _NONE
        for node in block:
            touched = self.node(node, number, weight)
            if touched:
                found |= touched
        return found

    def node(self, node: Node, number: int, weight: float) -> Words:
        touched = _NONE
        match node:
            case Op(region=Region() as region):
                touched = self.access(node, region, number, weight)
            case Within(compute, body):
                touched = self.block(compute, number, 2 * weight) | self.block(body, number, weight)
            case For(body=body) | While(body=body):
                touched = self.block(body, number, min(_LOOP * weight, _MOST_WEIGHT))
            case If(_, then, orelse):
                touched = self.block(then, number, weight / 2) | self.block(orelse, number, weight / 2)
            case Call(regions=regions):
                self.elsewhere.update(regions)
            case Op() | Local() | Delocal() | Check() | External():
                pass
        if touched:
            self.touched[id(node)] = node, touched
        return touched

    def access(self, op: Op, region: Region, number: int, weight: float) -> Words:
        at = self.place(op, region)
        self.bodies.setdefault(region, set()).add(number)
        if at is None:
            self.elsewhere.add(region)
            return _NONE
        self.words.setdefault(region, set()).add(at)
        self.weights[region] = self.weights.get(region, 0) + weight
        register = op.b if op.opcode.entry.name == "st" else op.d
        if isinstance(register, Var):
            self.kinds[region, at] = register.kind
        return frozenset({(region, at)})

    def place(self, op: Op, region: Region) -> int | None:
        """The index of the word, if it is known and there is one."""
        if not isinstance(op.a, Const) or region.address is None:
            return None
        at = (op.a.word + op.imm - region.address) & self.w.mask
        return at if at < region.size else None

    def of(self, node: Node) -> Words:
        found = self.touched.get(id(node))
        return _NONE if found is None else found[1]

    def of_block(self, block: Iterable[Node]) -> Words:
        return _NONE.union(*map(self.of, block))


@dataclass
class _Home:
    """The variables of regions that live in one block, or of one Within."""

    first: dict[int, list[Region]] = field(default_factory=dict)
    last: dict[int, list[Region]] = field(default_factory=dict)


class _Promoter:
    """One body, rewritten."""

    def __init__(
        self,
        survey: _Survey,
        accesses: AccessAnalysis,
        body: Block,
        chosen: set[Region],
        local: set[Region],
        constants: set[Region],
    ) -> None:
        self.survey = survey
        self.accesses = accesses
        self.source = body
        here = {region for region, _ in survey.of_block(body)}
        self.promoted = chosen & here
        self.local = self.promoted & local
        self.constants = constants
        self.variables: dict[Word, Var] = {}
        #: block or Within, by identity -> what lives there
        self.homes: dict[int, _Home] = {}
        #: a variable into which a word was exchanged -> the word's
        self.names: dict[Var, Var] = {}

    def body(self, entrances: Iterable[Region] = ()) -> Block:
        if not self.promoted and not self.constants:
            return self.source
        for region in self.local:
            self.settle(region)
        block = self.block(self.source)
        if self.names:
            block = Renaming(self.names).block(block)
        arguments = [region for region in entrances if region in self.promoted]
        compute: list[Node] = []
        for region in sorted(arguments, key=lambda r: r.address or 0):
            for at in sorted(self.survey.words[region]):
                var = self.variable((region, at))
                place = Op(TABLE["exch"], var, Const(0), None, (region.address or 0) + at, region.span, region)
                compute += [Local(var, span=region.span), place]
        return (Within(tuple(compute), block, None, block[0].span),) if compute else block

    def variable(self, word: Word) -> Var:
        found = self.variables.get(word)
        if found is None:
            region, at = word
            kind = self.survey.kinds.get(word, Kind.INT)
            found = self.variables[word] = Var(f"{region.name.rpartition('.')[2]}[{at}]", kind, region.span)
        return found

    # ------------------------------------------------------------------ where a region lives

    def settle(self, region: Region) -> None:
        """Find the smallest part of the body that is run through once in the life of the region."""
        block, repeated = self.source, False
        home: int | None = None
        span = range(0)
        while True:
            at = [i for i, node in enumerate(block) if any(r is region for r, _ in self.survey.of(node))]
            if not repeated:
                home, span = id(block), range(at[0], at[-1])
            node = block[at[0]]
            if len(at) > 1:
                break
            match node:
                case Within(compute, body):
                    inside = [i for i, n in enumerate(compute) if any(r is region for r, _ in self.survey.of(n))]
                    outside = any(r is region for r, _ in self.survey.of_block(body))
                    restores = self.restores(node, region)
                    if inside and (restores or not repeated):
                        home, span = id(node), range(inside[0], -1)
                    if inside and outside:
                        break
                    # What is computed is run through twice.
                    repeated = bool(inside) or (repeated and not restores)
                    block = compute if inside else body
                case If(_, then, orelse):
                    branches = [b for b in (then, orelse) if any(r is region for r, _ in self.survey.of_block(b))]
                    if len(branches) > 1:
                        break
                    (block,) = branches
                case For(body=body) | While(body=body):
                    block, repeated = body, True
                case _:
                    break
        assert home is not None
        found = self.homes.setdefault(home, _Home())
        found.first.setdefault(span.start, []).append(region)
        found.last.setdefault(span.stop, []).append(region)

    def restores(self, node: Within, region: Region) -> bool:
        """Whether the region is after the Within what it was before."""
        return region not in clobbered_between(node, self.accesses).stores

    def words(self, regions: Iterable[Region]) -> list[Var]:
        return [self.variable((region, at)) for region in regions for at in sorted(self.survey.words[region])]

    # ------------------------------------------------------------------ rewriting

    def block(self, block: Block) -> Block:
        home = self.homes.get(id(block))
        if home is None and not self.survey.of_block(block):
            return block
        out: list[Node] = []
        for i, node in enumerate(block):
            if home is not None:
                out += [Local(var, span=var.span) for var in self.words(home.first.get(i, ()))]
            out.append(self.node(node))
            if home is not None:
                ended = self.words(home.last.get(i, ()))
                out += [Delocal(var, span=var.span) for var in reversed(ended)]
        return splice(out)

    def node(self, node: Node) -> Node:
        if not self.survey.of(node):
            return node
        match node:
            case Op(region=Region() as region):
                return self.access(node, region)
            case Within():
                return self.within(node)
        return with_children(node, [self.block(b) for b in children(node)])

    def access(self, op: Op, region: Region) -> Op:
        at = self.survey.place(op, region)
        assert at is not None
        if region in self.constants:
            if op.opcode.entry.name != "ld":
                return op
            assert region.data is not None
            word = region.data[at] if at < len(region.data) else 0
            return op._replace(opcode=_move(op), a=Const(word & self.survey.w.mask), imm=0, region=None)
        if region not in self.promoted:
            return op
        var = self.variable((region, at))
        match op.opcode.entry.name:
            case "ld":
                return op._replace(opcode=_move(op), a=var, imm=0, region=None)
            case "st":
                return op._replace(opcode=_move(op), d=var, a=op.b, b=None, imm=0, region=None)
        return op._replace(opcode=TABLE["swap"], a=var, imm=0, region=None)

    def within(self, node: Within) -> Within:
        home = self.homes.get(id(node))
        first = home.first if home is not None else {}
        body_words = self.survey.of_block(node.body)
        # From the last statement backward, so that it is known what each word's later accesses are.
        later = body_words
        reversed_compute: list[Node] = []
        fresh = _exchanged_into(node.compute, self.accesses)
        gone: set[Var] = set()
        for i in range(len(node.compute) - 1, -1, -1):
            inner = node.compute[i]
            words = self.survey.of(inner)
            taken = isinstance(inner, Op) and inner.d in fresh and fresh[inner.d] == i and words.isdisjoint(later)
            if taken and isinstance(inner, Op) and isinstance(inner.d, Var) and self.promotes(words):
                # Nothing else sees the word while it is in the register: it may as well be called by its name.
                (word,) = words
                self.names[inner.d] = self.variable(word)
                gone.add(inner.d)
            elif isinstance(inner, Local) and inner.var in gone:
                pass
            else:
                reversed_compute.append(self.node(inner))
            reversed_compute += [Local(var, span=var.span) for var in reversed(self.words(first.get(i, ())))]
            later |= words
        return node._replace(compute=splice(reversed(reversed_compute)), body=self.block(node.body))

    def promotes(self, words: Words) -> bool:
        return any(region in self.promoted for region, _ in words)


def _move(op: Op) -> Opcode:
    return TABLE[f"mov.{op.opcode.update}"]


def _exchanged_into(compute: Block, accesses: AccessAnalysis) -> dict[Var, int]:
    """The locals that are zero still when a word of memory is exchanged into them, and where."""
    born: set[Var] = set()
    out: dict[Var, int] = {}
    for i, node in enumerate(compute):
        if isinstance(node, Local):
            born.add(node.var)
            continue
        if isinstance(node, Op) and node.opcode.entry.name == "exch" and isinstance(node.d, Var) and node.d in born:
            out[node.d] = i
        access = accesses.of(node)
        born -= access.reads | access.writes
    return out
