"""Scalar replacement of arrays (SROA): an array that is accessed at constant indices only becomes variables.

    ld t, [k];  st [k], x;  exch t, [k]            →  t += v;  v += x;  swap t, v          v stands for M[k]
    Within((Local t, exch t, [k]), b)              →  b[t := v]                           if b does not access M[k]
    ld t, [k] of constants that nothing writes     →  t += M[k]

An array of the program's own is zero outside of its life. So v lives in the smallest part of the program that holds all
accesses and runs once in the life of the array: in one `Within` if it holds all accesses, else in a block from the first
access to the last. A loop body and a compute block run more than once. A Within whose body changes neither the array nor
an operand of its compute block leaves the array zero if it was zero, however often it runs.
An array of the arguments is exchanged into variables at the ends of the entry, if that makes the program shorter.

Conditions: the address of the array goes to no procedure, and there is no `External`. Arrays with most accesses per word come
first, a loop counted as ASSUMED_TRIPS passes.
Correct because no other name reaches a word of the array. Cotangents are unchanged.
Traps: unchanged, except that an argument may still be in registers when a trap occurs. The checks that a word was zero hold, and are
removed, where nothing else could have changed the word.
Cost: registers; `max_live` bounds the variables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis, clobbered_between, constant_regions, private_regions
from retrograd.compiler.ir.instruction_selection import ASSUMED_TRIPS, by_registers, facts
from retrograd.compiler.ir.traversal import bodies, map_children, splice, walk
from retrograd.compiler.ir.value_numbering import Renaming
from retrograd.isa.table import TABLE

#: deeper than this, loops count no more
_MOST_WEIGHT = ASSUMED_TRIPS**6
#: the words of a region that are accessed
Word = tuple[ir.Region, int]
Words = frozenset[Word]
_NONE: Words = frozenset()


def replace_arrays_by_scalars(
    module: ir.Module, *, max_live: int = 96, largest: int = 64, largest_argument: int = 32
) -> ir.Module:
    """Replace arrays of at most `largest` words, of arguments `largest_argument`, by at most `max_live` variables."""
    accesses = AccessAnalysis(module)
    constants = constant_regions(module, accesses)
    survey = _Survey(module)
    local = {r for r in private_regions(module) - survey.elsewhere if len(survey.bodies.get(r, ())) == 1}
    entrances: set[ir.Region] = set()
    if module.arguments is not None:
        entrances = {r for r in module.arguments if survey.bodies.get(r) == {0}} - survey.elsewhere
    room = max_live
    chosen: set[ir.Region] = set()
    # In the order of the text where two weigh the same: a set has an order of its own in each process.
    candidates = [r for r in survey.words if r in local or r in entrances]
    for region in sorted(candidates, key=lambda r: -survey.weights[r] / len(survey.words[r])):
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
    entry = _Replacer(survey, accesses, module.entry, chosen, local, constants).body(entrances)
    for name, p in module.procedures.items():
        procedures[name] = replace(p, body=_Replacer(survey, accesses, p.body, chosen, local, constants).body())
    return replace(module, entry=entry, procedures=procedures)


class _Survey:
    """Where arrays are accessed: in which bodies, at which words, how often."""

    def __init__(self, module: ir.Module) -> None:
        self.w = module.format
        self.bodies: dict[ir.Region, set[int]] = {}
        self.words: dict[ir.Region, set[int]] = {}
        self.weights: dict[ir.Region, float] = {}
        #: the kind of the variables that are stored in a word, or loaded from it
        self.kinds: dict[Word, ir.Kind] = {}
        #: regions that are accessed at unknown indices or by a procedure, too
        self.elsewhere: set[ir.Region] = set()
        #: statement -> the words that it accesses; the statements are kept so that their numbers stay theirs
        self.touched: dict[int, tuple[ir.Node, Words]] = {}
        known = {region for region in module.regions if region.address is not None}
        looks = False
        anywhere = False
        for number, body in enumerate(bodies(module)):
            self.block(body, number, 1)
            for node in walk(body):
                looks |= isinstance(node, ir.External)
                anywhere |= isinstance(node, ir.Op) and node.region is None and facts(node.opcode).memory
        if looks or anywhere:
            self.elsewhere |= known
        self.elsewhere |= self.bodies.keys() - known

    def block(self, block: ir.Block, number: int, weight: float) -> Words:
        found = _NONE
        for node in block:
            touched = self.node(node, number, weight)
            if touched:
                found |= touched
        return found

    def node(self, node: ir.Node, number: int, weight: float) -> Words:
        touched = _NONE
        match node:
            case ir.Op(region=ir.Region() as region):
                touched = self.access(node, region, number, weight)
            case ir.Within(compute, body):
                touched = self.block(compute, number, 2 * weight) | self.block(body, number, weight)
            case ir.For(body=body) | ir.While(body=body):
                touched = self.block(body, number, min(ASSUMED_TRIPS * weight, _MOST_WEIGHT))
            case ir.If(_, then, orelse):
                touched = self.block(then, number, weight / 2) | self.block(orelse, number, weight / 2)
            case ir.Call(regions=regions):
                self.elsewhere.update(r for r in regions if r is not None)
            case ir.Op() | ir.Local() | ir.Delocal() | ir.Check() | ir.External():
                pass
        if touched:
            self.touched[id(node)] = node, touched
        return touched

    def access(self, op: ir.Op, region: ir.Region, number: int, weight: float) -> Words:
        at = self.place(op, region)
        self.bodies.setdefault(region, set()).add(number)
        if at is None:
            self.elsewhere.add(region)
            return _NONE
        self.words.setdefault(region, set()).add(at)
        self.weights[region] = self.weights.get(region, 0) + weight
        register = op.b if op.d is None else op.d
        if isinstance(register, ir.Var):
            self.kinds[region, at] = register.kind
        return frozenset({(region, at)})

    def place(self, op: ir.Op, region: ir.Region) -> int | None:
        """The index of the word, if it is known and there is one."""
        if not isinstance(op.a, ir.Const) or region.address is None:
            return None
        at = (op.a.word + op.imm - region.address) & self.w.mask
        return at if at < region.size else None

    def of(self, node: ir.Node) -> Words:
        found = self.touched.get(id(node))
        return _NONE if found is None else found[1]

    def of_block(self, block: Iterable[ir.Node]) -> Words:
        return _NONE.union(*map(self.of, block))


@dataclass
class _Lifetimes:
    """The regions whose variables live in one block or Within, by the statements of their first and last access."""

    first: dict[int, list[ir.Region]] = field(default_factory=dict)
    last: dict[int, list[ir.Region]] = field(default_factory=dict)


class _Replacer:
    """One body, rewritten."""

    def __init__(
        self,
        survey: _Survey,
        accesses: AccessAnalysis,
        body: ir.Block,
        chosen: set[ir.Region],
        local: set[ir.Region],
        constants: frozenset[ir.Region],
    ) -> None:
        self.survey = survey
        self.accesses = accesses
        self.source = body
        here = {region for region, _ in survey.of_block(body)}
        self.replaced = chosen & here
        self.local = self.replaced & local
        self.constants = constants
        self.variables: dict[Word, ir.Var] = {}
        #: identity of a block or Within -> the regions that live there
        self.lifetimes: dict[int, _Lifetimes] = {}
        #: a variable into which a word was exchanged -> the word's
        self.names: dict[ir.Var, ir.Var] = {}

    def body(self, entrances: Iterable[ir.Region] = ()) -> ir.Block:
        if not self.replaced and not self.constants:
            return self.source
        for region in self.survey.words:
            if region in self.local:
                self.find_life(region)
        block = self.block(self.source)
        if self.names:
            block = Renaming(self.names).block(block)
        arguments = [region for region in entrances if region in self.replaced]
        compute: list[ir.Node] = []
        for region in sorted(arguments, key=lambda r: r.address or 0):
            for at in sorted(self.survey.words[region]):
                var = self.variable((region, at))
                place = ir.Op(TABLE["exch"], var, ir.Const(0), None, (region.address or 0) + at, region.span, region)
                compute += [ir.Local(var, span=region.span), place]
        return (ir.Within(tuple(compute), block, None, block[0].span),) if compute else block

    def variable(self, word: Word) -> ir.Var:
        found = self.variables.get(word)
        if found is None:
            region, at = word
            kind = self.survey.kinds.get(word, ir.Kind.INT)
            names = filter(None, (layout.element_at(at) for layout in region.layouts))
            name = next(names, f"{region.name.rpartition('.')[2]}[{at}]")
            found = self.variables[word] = ir.Var(name, kind, region.span)
        return found

    # ------------------------------------------------------------------ lifetimes

    def find_life(self, region: ir.Region) -> None:
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
                case ir.Within(compute, body):
                    inside = [i for i, n in enumerate(compute) if any(r is region for r, _ in self.survey.of(n))]
                    outside = any(r is region for r, _ in self.survey.of_block(body))
                    restores = self.is_restored(node, region)
                    if inside and (restores or not repeated):
                        home, span = id(node), range(inside[0], -1)
                    if inside and outside:
                        break
                    # A compute block runs twice.
                    repeated = bool(inside) or (repeated and not restores)
                    block = compute if inside else body
                case ir.If(_, then, orelse):
                    branches = [b for b in (then, orelse) if any(r is region for r, _ in self.survey.of_block(b))]
                    if len(branches) > 1:
                        break
                    (block,) = branches
                case ir.For(body=body) | ir.While(body=body):
                    block, repeated = body, True
                case ir.Op() | ir.Local() | ir.Delocal() | ir.Call() | ir.Check() | ir.External():
                    break
        assert home is not None
        found = self.lifetimes.setdefault(home, _Lifetimes())
        found.first.setdefault(span.start, []).append(region)
        found.last.setdefault(span.stop, []).append(region)

    def is_restored(self, node: ir.Within, region: ir.Region) -> bool:
        """Whether the region has the same words after the Within as before it."""
        return region not in clobbered_between(node, self.accesses).stores

    def words(self, regions: Iterable[ir.Region]) -> list[ir.Var]:
        return [self.variable((region, at)) for region in regions for at in sorted(self.survey.words[region])]

    # ------------------------------------------------------------------ rewriting

    def block(self, block: ir.Block) -> ir.Block:
        lives = self.lifetimes.get(id(block))
        if lives is None and not self.survey.of_block(block):
            return block
        out: list[ir.Node] = []
        for i, node in enumerate(block):
            if lives is not None:
                out += [ir.Local(var, span=var.span) for var in self.words(lives.first.get(i, ()))]
            out.append(self.node(node))
            if lives is not None:
                ended = self.words(lives.last.get(i, ()))
                out += [ir.Delocal(var, span=var.span) for var in reversed(ended)]
        return splice(out)

    def node(self, node: ir.Node) -> ir.Node:
        if not self.survey.of(node):
            return node
        if isinstance(node, ir.Op):
            return node if node.region is None else self.access(node, node.region)
        if isinstance(node, ir.Within):
            return self.within(node)
        return map_children(node, self.block)

    def access(self, op: ir.Op, region: ir.Region) -> ir.Op:
        at = self.survey.place(op, region)
        assert at is not None
        if region in self.constants:
            if facts(op.opcode).stores:
                return op
            assert region.data is not None
            word = region.data[at] if at < len(region.data) else 0
            return by_registers(op, ir.Const(word & self.survey.w.mask))
        if region not in self.replaced:
            return op
        var = self.variable((region, at))
        if facts(op.opcode).function is not None:
            return by_registers(op, var)
        return op._replace(opcode=TABLE["swap"], a=var, imm=0, region=None)

    def within(self, node: ir.Within) -> ir.Within:
        lives = self.lifetimes.get(id(node))
        first = lives.first if lives is not None else {}
        body_words = self.survey.of_block(node.body)
        # From the last statement backward, so that the later accesses of each word are known.
        later = body_words
        reversed_compute: list[ir.Node] = []
        fresh = _exchanged_into(node.compute, self.accesses)
        gone: set[ir.Var] = set()
        for i in range(len(node.compute) - 1, -1, -1):
            inner = node.compute[i]
            words = self.survey.of(inner)
            taken = isinstance(inner, ir.Op) and inner.d in fresh and fresh[inner.d] == i and words.isdisjoint(later)
            if taken and isinstance(inner, ir.Op) and isinstance(inner.d, ir.Var) and self.replaces(words):
                # Nothing else accesses the word while it is in the register, so the register becomes the word's variable.
                (word,) = words
                self.names[inner.d] = self.variable(word)
                gone.add(inner.d)
            elif isinstance(inner, ir.Local) and inner.var in gone:
                pass
            else:
                reversed_compute.append(self.node(inner))
            reversed_compute += [ir.Local(var, span=var.span) for var in reversed(self.words(first.get(i, ())))]
            later |= words
        return node._replace(compute=splice(reversed(reversed_compute)), body=self.block(node.body))

    def replaces(self, words: Words) -> bool:
        return any(region in self.replaced for region, _ in words)


def _exchanged_into(compute: ir.Block, accesses: AccessAnalysis) -> dict[ir.Var, int]:
    """local -> the place where a word of memory is exchanged into it while it is still zero, if it lives to the end of the block"""
    freed = {node.var for node in walk(compute) if isinstance(node, ir.Delocal)}
    born: set[ir.Var] = set()
    out: dict[ir.Var, int] = {}
    for i, node in enumerate(compute):
        if isinstance(node, ir.Local):
            born.add(node.var)
            continue
        if (
            isinstance(node, ir.Op)
            and node.opcode.entry.name == "exch"
            and isinstance(node.d, ir.Var)
            and node.d in born - freed
        ):
            out[node.d] = i
        access = accesses.of(node)
        born -= access.reads | access.writes
    return out
