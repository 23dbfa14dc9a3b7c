"""The reversible pebble game: values of trees under a limit of lines, some of them computed more than once.

A pebble on a node means that lines hold its value. All pebbles but those of the inputs are removed in the end, and a node is pebbled or
cleared only while its operands are pebbled. A schedule for the values `roots` within S lines is one of

    hold      compute all nodes that the roots need, use the roots, and undo all
    clean     the same, but the intermediate bits within each operation are undone as soon as its result is copied
    split     pebble an inner node m, of size s; play for the roots within S − s lines; clear m.  To pebble or to clear m is to play for m

and the schedule is the one with the fewest gates. With a chain of equal nodes it is the game of Bennett, in the form of Knill.
(C. H. Bennett, Time/space trade-offs for reversible computation, SIAM J. Comput. 18, 1989; E. Knill, An analysis of Bennett's
pebble game, 1995.) On other graphs only some nodes are tried as m, so that a schedule with fewer gates may exist.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

from retrograd.hdl.reversible.builder import Bit, Bits, Builder
from retrograd.isa.expr import Expr, nodes

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
    """Roots to compute while some nodes are pebbled: (gates, lines) of the two ways to hold all; inner nodes that are tried."""

    hold: tuple[int, int]
    clean: tuple[int, int]
    tried: list[Expr]
    fewest: int | None = None
    #: limit of lines -> (gates, schedule)
    played: dict[int, tuple[int, Schedule] | None] = field(default_factory=dict)


@dataclass(frozen=True)
class _Size:
    """An operation: its gates; lines that it takes, and at most while it runs; lines of its result that are not its operands'."""

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
        #: node -> its bits: constants, lines of places, and other lines, whose numbers mean nothing
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
        """The bits of a pebbled node: those of the value, with these lines where they belong to no place."""
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
