"""Tabulation: results that a loop computes, and would compute again on the way back, are kept in an array in between.

    Within((…, for i: Within(r + v, d), …), b)
        →  Within((…, for i: (Local v; Within(r, (v, d)); exch v, K[i]; Delocal v), …), b)

The loop runs backward once b has run. There the exchange brings v in again, so that neither v⁻¹ in the loop nor v in its inverse is
executed: each word of K saves two executions of v, and costs two exchanges. This is the trade-off of time and space of reversible
programs (C. H. Bennett, Time/space trade-offs for reversible computation, SIAM J. Comput. 18, 1989).
Conditions: nothing of r reads v; neither b nor d interferes with the operands of v; the loops between both Withins make a known
number of passes, each with a place of K. Correct because v then holds the same words in the inverse of the loop as in the loop,
and K is zero before and behind the outer Within.
Choice: `budget` words are spent where a word saves most instructions; values that read each other go together. Traps: v⁻¹ and one
execution of v disappear, so traps become rarer. Derivatives are taken of the transformed program: its reverse sweep reads K, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import NO_MEMORY, NO_VARS, AccessAnalysis, AccessSets, clobbered_between
from retrograd.compiler.ir.instruction_selection import executed, expected_trips, length, trip_values
from retrograd.compiler.ir.traversal import map_children, rebuilt, splice, walk
from retrograd.compiler.ir.value_numbering import NumberedValue, ValueNumbering
from retrograd.isa.diagnostics import Span
from retrograd.isa.encoding import IMMEDIATE_MAX, IMMEDIATE_MIN
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

_ADD, _MUL, _EXCHANGE = TABLE["mov.add"], TABLE["mul.add"], TABLE["exch"]


class StoredResult(NamedTuple):
    """Temporaries of one place that are kept in memory: their words in all, and the instructions that this saves in a run."""

    names: tuple[str, ...]
    words: int
    saved: int
    span: Span | None


class Storage(NamedTuple):
    """The choice for a budget of words. `following`: the results that are left, with their words and savings, the best first."""

    budget: int
    chosen: tuple[StoredResult, ...] = ()
    following: tuple[StoredResult, ...] = ()

    @property
    def words(self) -> int:
        return sum(result.words for result in self.chosen)


NOTHING_STORED = Storage(0)


def store_results(module: ir.Module, budget: int) -> tuple[ir.Module, Storage]:
    """The module with temporaries of loops in at most `budget` words of memory, and the choice."""
    places = _Survey(module).places
    chosen: list[StoredResult] = []
    left = budget
    while True:
        offers = [offer for place in places for offer in place.offers()]
        offers.sort(key=lambda offer: -offer.result.saved / offer.result.words)
        affordable = next((offer for offer in offers if offer.result.words <= left), None)
        if affordable is None:
            break
        left -= affordable.result.words
        affordable.place.take(affordable.values)
        chosen.append(affordable.result)
    following = tuple(dict.fromkeys(offer.result for offer in offers))
    storage = Storage(budget, tuple(chosen), following)
    taken = {id(place.node): place for place in places if place.chosen}
    return (_Rewriter(module, taken).module if taken else module), storage


# ---------------------------------------------------------------- places


@dataclass(eq=False)
class _Place:
    """A Within in loops inside a compute block, and the values of it that can be kept."""

    node: ir.Within
    loops: tuple[ir.For, ...]
    #: passes of all loops
    passes: int
    #: how often the compute block around the loops runs
    times: int
    values: list[NumberedValue]
    #: number of a value -> the value and all values that read it, if all of them can be kept
    closures: dict[int, frozenset[int]]
    w: Format
    chosen: set[int] = field(default_factory=set)

    def offers(self) -> Iterator[_Offer]:
        """Each further value with the values that read it: the words that they take, the instructions that they save."""
        for number, closure in self.closures.items():
            added = closure - self.chosen
            if number in self.chosen:
                continue
            values = [value for value in self.values if value.number in added]
            words = sum(len(value.locals) for value in values)
            address = 4 * (len(self.loops) > 1 and not self.chosen)
            saved = sum(executed(value.statements, self.w) for value in values) - words - address
            if saved > 0:
                names = tuple(var.name for value in values for var in value.locals)
                result = StoredResult(
                    names,
                    words * self.passes,
                    2 * saved * self.passes * self.times,
                    self.node.span or values[0].nodes[0][1].span,
                )
                yield _Offer(self, added, result)

    def take(self, numbers: frozenset[int]) -> None:
        self.chosen |= numbers


class _Offer(NamedTuple):
    place: _Place
    values: frozenset[int]
    result: StoredResult


class _Frame(NamedTuple):
    """The compute block around a statement, and the loops between them. `changed`: variables and memory that its Within changes before it is undone."""

    changed: AccessSets
    times: int
    loops: tuple[ir.For, ...] = ()
    passes: int = 1


class _Survey:
    """Finds the places of a module where results can be kept."""

    def __init__(self, module: ir.Module) -> None:
        self.w = module.format
        self.accesses = AccessAnalysis(module)
        self.numbering = ValueNumbering(module, self.accesses)
        self.places: list[_Place] = []
        # A recursive procedure would need a place for each of its activations.
        for body in (module.entry, *(p.body for p in module.procedures.values() if not p.recursive)):
            self.births = Counter(node.var for node in walk(body) if isinstance(node, ir.Local))
            self.block(body, None, 1)

    def block(self, block: ir.Block, frame: _Frame | None, times: int) -> None:
        """`times`: how often the block runs, in all."""
        for node in block:
            match node:
                case ir.Within(compute, body):
                    if frame is not None and frame.loops:
                        self.consider(node, frame)
                    changed = clobbered_between(node, self.accesses)
                    for part in compute:
                        # Where a part reads a changed word, its own locals may differ when it is undone.
                        steady = not changed.clobbers(self.accesses.of(part)._replace(writes=NO_VARS, stores=NO_MEMORY))
                        self.block((part,), _Frame(changed, times) if steady else None, times)
                    self.block(body, frame, times)
                case ir.For(body=body):
                    inside = times * expected_trips(node, self.w)
                    values = trip_values(node, self.w)
                    inner = None
                    if frame is not None and values is not None and abs(node.step) == 1 and length(values):
                        inner = frame._replace(loops=(*frame.loops, node), passes=frame.passes * length(values))
                    self.block(body, inner, inside)
                case ir.If(test, then, orelse, post):
                    # Undone, it must take the branch that it has taken.
                    operands = {test.a, test.b, post.a, post.b}
                    kept = frame if frame is None or frame.changed.writes.isdisjoint(operands) else None
                    for branch in (then, orelse):
                        self.block(branch, kept, times)
                case ir.While(body=body):
                    self.block(body, None, times)
                case ir.Op() | ir.Local() | ir.Delocal() | ir.Call() | ir.Check() | ir.External():
                    pass

    def consider(self, node: ir.Within, frame: _Frame) -> None:
        values = self.numbering.of(node.compute)
        if len({value.number for value in values}) < len(values):
            return
        between = clobbered_between(node, self.accesses)
        steady = {value.number for value in values if not frame.changed.clobbers(value.access)}
        able = {value.number for value in values if self.storable(value, steady, between)}
        closures: dict[int, frozenset[int]] = {}
        for value in reversed(values):
            if value.number not in able:
                continue
            closure = {value.number} | {other.number for other in values if value.number in other.needs}
            rest = [other for other in values if other.number not in closure]
            # The values are computed behind all others.
            if closure <= able and not any(
                other.access.clobbers(kept.access) for other in rest for kept in values if kept.number in closure
            ):
                closures[value.number] = frozenset(closure)
        if closures:
            self.places.append(_Place(node, frame.loops, frame.passes, frame.times, values, closures, self.w))

    def storable(self, value: NumberedValue, steady: set[int], between: AccessSets) -> bool:
        """Whether the value can be kept: `steady` are the numbers of values whose operands are the same when they are undone."""
        access = value.access
        return (
            not (value.opaque or access.stack or access.barrier or access.promises)
            and value.weight > 0
            and bool(value.locals)
            and value.needs | {value.number} <= steady
            and not between.clobbers(access)
            and between.writes.isdisjoint(value.locals)
            and all(self.births[var] == 1 for var in value.locals)
            and not any(isinstance(statement, ir.Delocal) for statement in value.statements)
        )


# ---------------------------------------------------------------- rewriting


class _Rewriter:
    """The module with the chosen values in memory."""

    def __init__(self, module: ir.Module, taken: dict[int, _Place]) -> None:
        self.w = module.format
        self.taken = taken
        self.memory = module.memory
        self.regions: list[ir.Region] = []
        entry = self.block(module.entry)
        procedures = {name: replace(p, body=self.block(p.body)) for name, p in module.procedures.items()}
        self.module = replace(
            module, entry=entry, procedures=procedures, memory=self.memory, regions=(*module.regions, *self.regions)
        )

    def block(self, block: ir.Block) -> ir.Block:
        out: list[ir.Node] = []
        for node in block:
            place = self.taken.get(id(node))
            new = map_children(node, self.block)
            if place is None:
                out.append(new)
            else:
                assert isinstance(new, ir.Within)
                out.extend(self.stored(new, place))
        return block if rebuilt(block, out) is block else splice(out)

    def stored(self, node: ir.Within, place: _Place) -> ir.Block:
        """The Within, its chosen values exchanged into memory."""
        kept = [value for value in place.values if value.number in place.chosen]
        rest = [s for value in place.values if value.number not in place.chosen for s in value.statements]
        statements = [s for value in kept for s in value.statements]
        born = [s for s in statements if isinstance(s, ir.Local)]
        body = (*(s for s in statements if not isinstance(s, ir.Local)), *node.body)
        inner = (node._replace(compute=tuple(rest), body=body),) if rest else body
        return (
            *born,
            *inner,
            *self.exchanges([s.var for s in born], place, node.span),
            *map(ir.invert_node, reversed(born)),
        )

    def exchanges(self, variables: Sequence[ir.Var], place: _Place, span: Span | None) -> ir.Block:
        """v, K[i] := K[i], v for each variable, in an array of its own."""
        *outer, last = place.loops
        at: ir.Var = last.var
        offset, stride = 0, 1
        products: list[ir.Node] = []
        variable = ir.Var("at", ir.Kind.ADDRESS, span)
        for loop in reversed(place.loops):
            values = trip_values(loop, self.w)
            assert values is not None
            offset -= stride * min(values[0], values[-1])
            if loop is not last:
                products.append(ir.Op(_MUL, variable, loop.var, ir.Const(stride & self.w.mask), span=span))
            stride *= length(values)
        compute: list[ir.Node] = []
        far = not IMMEDIATE_MIN < offset + self.memory + len(variables) * place.passes <= IMMEDIATE_MAX
        if outer or far:
            at = variable
            compute = [ir.Local(at, False, span), ir.Op(_ADD, at, last.var, span=span), *products]
        if far:
            # Passes whose numbers are too large for a constant in an instruction.
            compute.append(ir.Op(_ADD, at, ir.Const(offset & self.w.mask), span=span))
            offset = 0
        out: list[ir.Node] = []
        for var in variables:
            region = ir.Region(f"{var.name}.kept", place.passes, self.memory, None, span)
            self.regions.append(region)
            out.append(ir.Op(_EXCHANGE, var, at, None, self.memory + offset, span, region))
            self.memory += place.passes
        return (ir.Within(tuple(compute), tuple(out), None, span),) if compute else tuple(out)
