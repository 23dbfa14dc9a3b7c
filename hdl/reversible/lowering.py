"""The instructions of the table as circuits: a fold over the expression trees.

An update d ⊕= E computes E on ancillas, changes d in place, and undoes the computation of E. Strategies say when:

    bennett   after the update, all at once: each gate of E twice
    eager     intermediate values of an operation as soon as its result is copied, the rest as above: fewer ancillas, more gates
    garbage   never: the ancillas stay as garbage, half of the gates
    pebble    so that a budget of ancillas is kept, by the schedule with the fewest gates that the pebble game finds

(C. H. Bennett, Logical reversibility of computation, IBM J. Res. Dev. 17, 1973.)
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeVar, get_args

from retrograd.hdl.reversible import builder
from retrograd.hdl.reversible.builder import FALSE, TRUE, Bit, Bits, Builder, constant_bits
from retrograd.hdl.reversible.circuit import Circuit
from retrograd.isa.derivatives import lift
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.effects import Effects, Erase, Exchange, Permute, Unerase, Update
from retrograd.isa.entries import Guard, Opcode, bar
from retrograd.isa.expr import Expr, apply_operation, half, inputs, nodes
from retrograd.isa.words import Format

# -----------------------------------------------------------------------------
# Strategies: when intermediate values are uncomputed.

Strategy = Literal["bennett", "eager", "garbage", "pebble"]


def need_strategy(name: str, budget: int | None) -> None:
    """Raise ValueError unless the name is that of a strategy, and `pebble` alone has a budget."""
    if name not in get_args(Strategy):
        raise ValueError(f"strategy is one of {', '.join(get_args(Strategy))}, not {name!r}")
    if (name == "pebble") != (budget is not None):
        raise ValueError("a budget of ancillas is for the strategy pebble, which needs one")


def within_budget(make: Callable[[Strategy, int], Circuit], budget: int) -> Circuit:
    """The circuit with the fewest gates within the budget, among Bennett's circuit and the schedules for this budget and for the least budget.

    Raises InputError RG1406 where none keeps to it, and names the smallest budget.
    """
    found = make("bennett", budget)
    if len(found.ancillas) > budget:
        tried = [make("pebble", budget), make("pebble", 0), found]
        least = min(len(circuit.ancillas) for circuit in tried)
        if least > budget:
            message = f"no schedule keeps to {budget} ancillas; the smallest budget is {least}"
            raise InputError(Diagnostic("RG1406", message, hint=f"Allow {least} ancillas or more."))
        found = min((c for c in tried if len(c.ancillas) <= budget), key=lambda circuit: len(circuit.gates))
    return found


# -----------------------------------------------------------------------------
# The reversible pebble game: values of trees under a limit of lines, some of them computed more than once.
#
# A pebble on a node means that lines hold its value. In the end all pebbles except the pebbles of the inputs are
# removed. A node is pebbled or
# cleared only while its operands are pebbled. A schedule for the values `roots` within S lines is one of
#
#     hold      compute all nodes that the roots need, use the roots, and undo all
#     clean     the same, but the intermediate bits within each operation are undone as soon as its result is copied
#     split     pebble an inner node m, of size s; play for the roots within S − s lines; clear m.  To pebble or to clear m is to play for m
#
# and the schedule is the one with the fewest gates. With a chain of equal nodes it is the game of Bennett, in the form of Knill.
# (C. H. Bennett, Time/space trade-offs for reversible computation, SIAM J. Comput. 18, 1989; E. Knill, An analysis of Bennett's
# pebble game, 1995.) On other graphs only some nodes are tried as m, so that a schedule with fewer gates may exist.

#: how many inner nodes are tried as m where 0, 1, 2, … nodes are pebbled beside the inputs
_TRIED = (4, 4, 3, 3, 2, 1, 1, 1, 0)
#: operations whose intermediate bits are not worth a copy of the result
DIRECT = frozenset({"const", "add", "sub", "and", "or", "xor"})


@dataclass(frozen=True)
class Hold:
    """Compute the nodes that are not pebbled; with `clean`, without their intermediate bits."""

    clean: bool


@dataclass(frozen=True)
class Split:
    """Pebble `node` by the schedule `first`, play `rest`, clear the node by `first`."""

    node: Expr
    first: Schedule
    rest: Schedule


Schedule = Hold | Split


Roots = tuple[Expr, ...]


@dataclass
class _Position:
    """Roots to compute while some nodes are pebbled: (gates, lines) of the two ways to hold all nodes; the inner nodes that are tried."""

    hold: tuple[int, int]
    clean: tuple[int, int]
    tried: list[Expr]
    fewest: int | None = None
    #: limit of lines -> (gates, schedule)
    played: dict[int, tuple[int, Schedule] | None] = field(default_factory=dict)


@dataclass(frozen=True)
class _Size:
    """An operation: its gates; the lines that it takes in the end and at most; the lines of its result that are not lines of its operands."""

    gates: int
    taken: int
    peak: int
    new: int
    #: lines of the result that belong to no place, which a pebble needs
    pebble: int


class Game:
    """The game for trees over places with these bits. `lower(builder, node, operands)` makes the gates of a node.

    `body` uses the roots' words on a builder.
    """

    def __init__(
        self,
        places: Mapping[str, Bits],
        roots: Sequence[Expr],
        lines: int,
        width: int,
        lower: Callable[[Builder, Expr, Sequence[Bits]], list[Bit]],
        body: Callable[[Builder, list[list[Bit]]], None],
    ) -> None:
        self.roots, self.order, self._width = tuple(roots), list(nodes(*roots)), width
        trial = Builder()
        trial.lines = lines
        self._sizes: dict[Expr, _Size] = {}
        #: node -> its bits: constants, lines of places, and other lines, whose numbers are arbitrary
        self.bits: dict[Expr, list[Bit]] = {}
        for node in self.order:
            if node.op == "input":
                self.bits[node] = list(places[str(node.param)])
                continue
            operands = [self.bits[x] for x in node.args]
            given = {bit for word in operands for bit in word}
            gates, used = len(trial.gates), trial.used
            trial.most = used
            out = lower(trial, node, operands)
            new = sum(bit >= 0 and bit not in given for bit in out)
            pebble = sum(bit >= lines for bit in out)
            self._sizes[node] = _Size(len(trial.gates) - gates, trial.used - used, trial.most - used, new, pebble)
            self.bits[node] = out
        used = trial.most = trial.used
        body(trial, [self.bits[root] for root in roots])
        self._body = trial.most - used
        self._lines = lines
        self._above: dict[Expr, frozenset[Expr]] = {}
        for node in self.order:
            above = frozenset().union(*(self._above[x] for x in node.args))
            self._above[node] = above | {node} if node.op != "input" else above
        self._positions: dict[tuple[Roots, frozenset[Expr]], _Position] = {}

    def lines_of(self, node: Expr) -> int:
        """The lines of a pebble on the node."""
        return self._sizes[node].pebble

    def word(self, node: Expr, lines: Sequence[int]) -> list[Bit]:
        """The bits of a pebbled node: the bits of its value, on these lines where they do not belong to a place."""
        rest = iter(lines)
        return [next(rest) if bit >= self._lines else bit for bit in self.bits[node]]

    def schedule(self, limit: int) -> Schedule | None:
        """The schedule with the fewest gates within this number of lines, or None."""
        found = self._play(self.roots, frozenset(), limit)
        return None if found is None else found[1]

    def least(self) -> int:
        """The smallest number of lines for which there is a schedule."""
        return self._fewest_lines(self.roots, frozenset())

    def _fewest_lines(self, roots: Roots, pebbled: frozenset[Expr]) -> int:
        position = self._position(roots, pebbled)
        if position.fewest is None:
            position.fewest = min(position.hold[1], position.clean[1])
            for node in position.tried:
                size = self._sizes[node].pebble
                if size < position.fewest:
                    first = self._fewest_lines((node,), pebbled)
                    rest = self._fewest_lines(roots, pebbled | {node})
                    position.fewest = min(position.fewest, size + max(first, rest))
        return position.fewest

    def _position(self, roots: Roots, pebbled: frozenset[Expr]) -> _Position:
        above = frozenset().union(*(self._above[root] for root in roots))
        key = roots, pebbled & above
        if key not in self._positions:
            found = reached(*key)
            needed = [node for node in self.order if node in found and node.op != "input"]
            tried = self._middle(roots, needed, _TRIED[min(len(key[1]), len(_TRIED) - 1)])
            hold, clean = self._hold(roots, needed, False), self._hold(roots, needed, True)
            self._positions[key] = _Position(hold, clean, tried)
        return self._positions[key]

    def _hold(self, roots: Roots, needed: Sequence[Expr], clean: bool) -> tuple[int, int]:
        """(gates, lines) where all nodes are computed and held."""
        gates = held = peak = 0
        for node in needed:
            size = self._sizes[node]
            if clean and node.op not in DIRECT:
                gates += 2 * (2 * size.gates + size.new)
                peak = max(peak, held + self._width + size.peak)
                held += size.new
            else:
                gates += 2 * size.gates
                peak = max(peak, held + size.peak)
                held += size.taken
        return gates, max(peak, held + (self._body if roots == self.roots else 0))

    def _play(self, roots: Roots, pebbled: frozenset[Expr], limit: int) -> tuple[int, Schedule] | None:
        position = self._position(roots, pebbled)
        if position.hold[1] <= limit:
            return position.hold[0], Hold(False)
        if self._fewest_lines(roots, pebbled) > limit:
            return None
        if limit not in position.played:
            position.played[limit] = self._best_split(roots, pebbled, limit, position)
        return position.played[limit]

    def _best_split(
        self, roots: Roots, pebbled: frozenset[Expr], limit: int, position: _Position
    ) -> tuple[int, Schedule] | None:
        found: tuple[int, Schedule] | None = None
        if position.clean[1] <= limit:
            found = position.clean[0], Hold(True)
        for node in position.tried:
            size = self._sizes[node].pebble
            # No schedule has fewer gates than that which holds all nodes.
            least = [self._position(*side).hold[0] for side in (((node,), pebbled), (roots, pebbled | {node}))]
            if found is not None and 2 * (least[0] + size) + least[1] >= found[0]:
                continue
            first = self._play((node,), pebbled, limit - size)
            if first is None or (found is not None and 2 * (first[0] + size) + least[1] >= found[0]):
                continue
            rest = self._play(roots, pebbled | {node}, limit - size)
            if rest is not None and (found is None or 2 * (first[0] + size) + rest[0] < found[0]):
                found = 2 * (first[0] + size) + rest[0], Split(node, first[1], rest[1])
        return found

    def _middle(self, roots: Roots, needed: Sequence[Expr], count: int) -> list[Expr]:
        """Inner nodes that divide the computation evenly, by the lines that are held before them."""
        inner = [node for node in needed if self._sizes[node].pebble and roots != (node,)]
        if len(inner) <= count:
            return inner
        total, sums = 0, []
        for node in inner:
            total += self._sizes[node].taken
            sums.append(total)
        wanted = [total * (k + 1) / (count + 1) for k in range(count)]
        chosen = {min(range(len(inner)), key=lambda i, target=target: abs(sums[i] - target)) for target in wanted}  # type: ignore[misc]
        return [inner[i] for i in sorted(chosen)]


def reached(roots: Sequence[Expr], pebbled: Container[Expr]) -> set[Expr]:
    """The nodes below the roots, and the roots, down to nodes that are pebbled."""
    found: set[Expr] = set()
    stack = [root for root in roots if root not in pebbled]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += [arg for arg in node.args if arg not in pebbled]
    return found


# -----------------------------------------------------------------------------
# The fold.

T = TypeVar("T")


def lower_operation(b: Builder, w: Format, node: Expr, v: Sequence[Bits]) -> list[Bit]:
    """The result of one node from the bits of its operands, which are read only. May leave intermediate values."""
    width, s = w.width, node.param if isinstance(node.param, int) else 0
    if node.op != "input" and all(bit < 0 for word in v for bit in word):
        words = [sum(1 << i for i, bit in enumerate(word) if bit == TRUE) for word in v]
        param = () if node.param is None or isinstance(node.param, str) else node.param
        return constant_bits(apply_operation(w, node.op, param or s, words), width)

    def predicate(bit: Bit) -> list[Bit]:
        return [bit, *[FALSE] * (width - 1)]

    amount = [] if len(v) < 2 else v[1][: width.bit_length() - 1]
    match node.op:
        case "add":
            if all(bit == FALSE for bit in v[0]):
                return list(v[1])
            out = b.copy(v[0])
            b.add(out, v[1])
            return list(out)
        case "sub":
            out = b.copy(v[0])
            b.subtract(out, v[1])
            return list(out)
        case "and":
            return [b.masked([x], y)[0] for x, y in zip(*v, strict=True)]
        case "or":
            return [_either(b, x, y) for x, y in zip(*v, strict=True)]
        case "xor":
            return [_differ(b, x, y) for x, y in zip(*v, strict=True)]
        case "shl":
            return builder.shift_left(b, v[0], amount)
        case "shr":
            return builder.shift_right(b, v[0], amount)
        case "sar":
            return builder.shift_right(b, v[0], amount, v[0][-1])
        case "eq":
            return predicate(b.opposite(b.nonzero([_differ(b, x, y) for x, y in zip(*v, strict=True)])))
        case "lt":
            if all(bit == FALSE for bit in v[1]):
                return predicate(v[0][-1])
            # Signed order is unsigned order with the sign bits exchanged.
            return predicate(b.less([*v[0][:-1], v[1][-1]], [*v[1][:-1], v[0][-1]]))
        case "ltu":
            return predicate(b.less(v[0], v[1]))
        case "select":
            return builder.choose(b, b.nonzero(v[0]), v[1], v[2])
        case "mulshift":
            return builder.product(b, v[0], v[1], s, 0)
        case "mulround":
            return builder.product(b, v[0], v[1], s, half(s, w))
        case "divshift":
            found = builder.floor_quotient(b, v[0], v[1], max(s, 0), max(-s, 0), width)
            return b.masked(found, b.nonzero(v[1]))
        case "divround":
            # ⌊z + ½⌋ = ⌊(⌊2z⌋ + 1) / 2⌋
            places, drop = s % width, 1 + s % width - s
            twice = builder.floor_quotient(b, v[0], v[1], places + 1, 0, drop + width)
            b.add([line for line in twice if line >= 0], [TRUE])
            return b.masked(twice[drop:], b.nonzero(v[1]))
        case "sqrtround":
            twice = b.copy([*builder.root(b, v[0], s + 2), *[FALSE] * (width + 1)][: width + 1])
            b.add(twice, [TRUE])
            return b.masked(twice[1:], b.opposite(v[0][-1]))
        case "table" if isinstance(node.param, tuple):
            return builder.look_up(b, v[0], node.param, width)
    raise ValueError(f"no gates for operation {node.op!r}")


def _either(b: Builder, x: Bit, y: Bit) -> Bit:
    if TRUE in (x, y):
        return TRUE
    if x == y or FALSE in (x, y):
        return y if x == FALSE else x
    (out,) = b.copy([x])
    b.flip(out, y)
    b.flip(out, x, y)
    return out


def _differ(b: Builder, x: Bit, y: Bit) -> Bit:
    if x == y:
        return FALSE
    if FALSE in (x, y):
        return x if y == FALSE else y
    if x < 0 and y < 0:
        return TRUE
    (out,) = b.copy([x])
    b.flip(out, y)
    return out


class EffectLowering:
    """Places of instructions on lines, and effects on the places.

    With a `control`, effects on places happen where that bit is 1. The values for them are computed and undone without a control.
    """

    def __init__(self, b: Builder, w: Format, strategy: Strategy) -> None:
        self.b, self.w, self.strategy = b, w, strategy
        #: the bits of each place; those of a place that an effect changes are lines
        self.places: dict[str, list[Bit]] = {}
        self.control: Bit = TRUE
        #: of the strategy `pebble`: the most lines of the circuit
        self.limit = 0
        #: lines with words that were erased
        self.erased: list[int] = []

    def trees(
        self, *roots: Expr, clean: bool = False, pebbled: Mapping[Expr, list[Bit]] = MappingProxyType({})
    ) -> list[list[Bit]]:
        """The words of the trees, for the current words of the places. `pebbled`: nodes whose words exist already."""
        done = dict(pebbled)
        wanted = reached(roots, pebbled)
        for node in nodes(*roots):
            if node not in wanted:
                continue
            if node.op == "input":
                done[node] = list(self.places[str(node.param)])
            else:
                done[node] = self._node(node, [done[arg] for arg in node.args], clean or self.strategy == "eager")
        return [done[root] for root in roots]

    def with_trees(self, roots: Sequence[Expr], body: Callable[[list[list[Bit]]], None]) -> None:
        """body on the words of the trees, which are undone afterwards, unless garbage is kept."""
        if self.strategy != "pebble":
            self.using(lambda: self.trees(*roots), body)
            return

        def trial(b: Builder, words: list[list[Bit]]) -> None:
            own, self.b = self.b, b
            body(words)
            self.b = own

        def lower_on(b: Builder, node: Expr, operands: Sequence[Bits]) -> list[Bit]:
            return lower_operation(b, self.w, node, operands)

        b = self.b
        game = Game(self.places, roots, b.lines, self.w.width, lower_on, trial)
        found = game.schedule(self.limit - b.used) or game.schedule(game.least())
        assert found is not None
        self._play(game, found, roots, {}, body)

    def _play(
        self,
        game: Game,
        schedule: Schedule,
        roots: Sequence[Expr],
        pebbled: Mapping[Expr, list[Bit]],
        body: Callable[[list[list[Bit]]], None],
    ) -> None:
        match schedule:
            case Hold(clean):
                self.b.within(lambda: self.trees(*roots, clean=clean, pebbled=pebbled), body)
            case Split(node, first, rest):
                lines = self.b.fresh(game.lines_of(node))
                word = game.word(node, lines)

                def copy(words: list[list[Bit]]) -> None:
                    for bit, line in zip(words[0], word, strict=True):
                        if line in lines:
                            self.b.flip(line, bit)

                self._play(game, first, [node], pebbled, copy)
                self._play(game, rest, roots, {**pebbled, node: word}, body)
                self._play(game, first, [node], pebbled, copy)
                self.b.give_back(lines)

    def _node(self, node: Expr, v: Sequence[Bits], clean: bool) -> list[Bit]:
        if not clean or node.op in DIRECT:
            return lower_operation(self.b, self.w, node, v)
        out: list[Bit] = []
        spare = self.b.fresh(self.w.width)

        def keep(found: list[Bit]) -> None:
            for bit in found:
                if bit < 0 or bit in given:
                    out.append(bit)
                else:
                    self.b.flip(spare[-1], bit)
                    out.append(spare.pop())

        given = {bit for word in v for bit in word}
        self.b.within(lambda: lower_operation(self.b, self.w, node, v), keep)
        self.b.give_back(spare)
        return out

    def using(self, compute: Callable[[], T], body: Callable[[T], None]) -> None:
        """body on the result of `compute`, which is undone afterwards unless garbage is kept."""
        if self.strategy == "garbage":
            body(compute())
        else:
            self.b.within(compute, body)

    def effects(self, effects: Effects) -> None:
        """Apply the effects to the places, in place."""
        for effect in effects:
            match effect:
                case Update(where, operator, value):
                    self.with_trees(
                        [value],
                        lambda v, where=where, operator=operator: self._update(operator, self.places[where], v[0]),  # type: ignore[misc]
                    )
                case Exchange(left, right, when):
                    if when is None and self.control == TRUE:
                        self.places[left], self.places[right] = self.places[right], self.places[left]
                    else:
                        self._exchange(left, right, when)
                case Permute(where, forward, backward, _):
                    self._permute(where, forward, backward)
                case Erase(where):
                    self._erase(where)
                case Unerase():
                    raise InputError(Diagnostic("RG1402", "no netlist brings back an erased word"))

    def _update(self, operator: str, target: list[int], value: Bits) -> None:
        b, control = self.b, self.control
        match operator:
            case "xor":
                b.flip_each(target, value, control)
            case "add":
                b.add_where(target, value, control)
            case "sub":
                b.inverted(lambda: b.add_where(target, value, control))
            case "mul" | "div":
                # Of a lognum the signs add without a carry from the logarithm below them.
                b.flip(target[-1], value[-1], control)
                self._update("add" if operator == "mul" else "sub", target[:-1], value[:-1])
            case _:
                raise ValueError(f"no gates for the update {operator!r}")

    def _exchange(self, left: str, right: str, when: Expr | None) -> None:
        def body(condition: Bit) -> None:
            for x, y in zip(self.places[left], self.places[right], strict=True):
                self.b.exchange(x, y, condition, self.control)

        if when is None:
            body(TRUE)
        else:
            self.with_trees([when], lambda words: self.using(lambda: self.b.nonzero(words[0]), body))

    def _permute(self, where: str, forward: Expr, backward: Expr) -> None:
        """new := forward(x); exchange x and new; new ⊕= backward(x), which leaves 0. Each step has the control."""
        b, old, control = self.b, self.places[where], self.control
        new = b.keep(self.w.width)
        self.with_trees([forward], lambda v: self.b.flip_each(new, v[0], control))
        if control == TRUE:
            self.places[where] = new
            self.with_trees([backward], lambda v: self.b.flip_each(old, v[0]))
            self.places[where] = old
            b.flip_each(old, new)
            b.flip_each(new, old)
        else:
            for x, y in zip(old, new, strict=True):
                b.exchange(x, y, control)
            self.with_trees([backward], lambda v: self.b.flip_each(new, v[0], control))
        b.give_back(new)

    def _erase(self, where: str) -> None:
        """The word leaves as garbage; zeros come in its place."""
        zeros = self.b.keep(self.w.width)
        if self.control == TRUE:
            self.erased += self.places[where]
            self.places[where] = zeros
            return
        self.erased += zeros
        for x, y in zip(self.places[where], zeros, strict=True):
            self.b.exchange(x, y, self.control)

    def trap(self, predicates: Sequence[Expr]) -> int:
        """A line that is 1 where some predicate is 0."""
        (line,) = self.b.fresh()
        self.with_trees(
            predicates,
            lambda words: self.using(
                lambda: [self.b.nonzero(word) for word in words], lambda bits: self.b.flip(line, *bits)
            ),
        )
        self.b.flip(line)
        return line


def guards_of(opcode: Opcode, w: Format) -> list[tuple[Guard, Expr]]:
    """The guards of the trap line, without those of the branch register at rest and of strict machines, with their predicates."""
    return [
        (guard, opcode.guard_predicate(guard, w))
        for guard in opcode.guards(w)
        if guard.mode != "strict" and guard.code not in ("RG0405", "RG0406")
    ]


def lower(
    opcode: Opcode,
    w: Format,
    *,
    strategy: Strategy = "bennett",
    budget: int | None = None,
    trap: bool = False,
    cotangents: bool = False,
) -> Circuit:
    """The instruction as a circuit on the words of its places; a constant `imm` is an input like the others.

    The inverse is `Circuit.inverse()`. With `trap`, the output `trap` is 1 where the instruction traps: then the other outputs mean
    nothing. With `cotangents`, the cotangents change by the lift of the instruction, before its words do.
    `budget`: of ancillas, for the strategy `pebble`. An erased word is garbage. Trap: the inverse needs the garbage.
    Raises InputError RG1402 for `unerase`, RG1406 for a budget that is too small; NoDerivative where there is no lift.

    >>> from retrograd.isa.table import TABLE
    >>> lower(TABLE["mov.add"], Format(8, 4)).run({"d": 250, "a": 10})
    {'a': 10, 'd': 4}
    """
    need_strategy(strategy, budget)
    if budget is not None:
        return within_budget(lambda chosen, most: _lower(opcode, w, chosen, most, trap, cotangents), budget)
    return _lower(opcode, w, strategy, 0, trap, cotangents)


def _lower(opcode: Opcode, w: Format, strategy: Strategy, budget: int, trap: bool, cotangents: bool) -> Circuit:
    effects = opcode.effects(w)
    lifted = lift(opcode, w) if cotangents else ()
    predicates = [tree for _, tree in guards_of(opcode, w)] if trap else []
    names = places_of(effects) | places_of(lifted) | inputs(*predicates)
    if cotangents:
        names |= {bar(name) for name in opcode.writes if name != "br"}
    b = Builder()
    found = EffectLowering(b, w, strategy)
    found.places = {name: b.inputs(w.width) for name in sorted(names)}
    found.limit = b.lines + budget
    given = {name: tuple(lines) for name, lines in found.places.items()}
    line = found.trap(predicates) if trap else None
    found.effects(lifted)
    found.effects(effects)
    outputs = {name: tuple(lines) for name, lines in found.places.items()}
    if line is not None:
        outputs["trap"] = (line,)
    held = {q for word in given.values() for q in word} | b.taken
    garbage = held.difference(*outputs.values())
    return Circuit(b.lines, tuple(b.gates), given, outputs, tuple(sorted(garbage)))


def places_of(effects: Effects) -> frozenset[str]:
    """All places that the effects read or write."""
    names: set[str] = set()
    for effect in effects:
        match effect:
            case Update(where, _, value):
                names |= {where} | inputs(value)
            case Exchange(left, right, when):
                names |= {left, right} | (frozenset() if when is None else inputs(when))
            case Permute(where, forward, backward, _):
                names |= {where} | inputs(forward, backward)
            case Erase(where) | Unerase(where):
                names.add(where)
    return frozenset(names)
