"""Prices of netlists by a technology model.

    reversible      gates · energy + idle lines · energy + lines held in a level · power / f + garbage · energy of a bit
    irreversible    cells · energy, each at least kT ln 2 for each bit that it loses

A netlist is a pipeline: an evaluation enters in each cycle of the clock, so that each gate switches once for an evaluation, and takes
⌈levels / phases⌉ cycles. A reversible gate loses nothing, so its energy may fall with the clock without a limit.

A shape has the facts of a netlist on which its price depends. A reversible gate begins when all of its lines are free, and takes the levels
of its kind. A line is held from the first level, or from its first gate if it begins as 0, to the last level, or to its last gate if
it ends as 0. Between two of its gates it is a `line` for each level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from retrograd.simulator.energy.gates import lost_bits
from retrograd.simulator.energy.pricing import (
    Covered,
    Item,
    NotModelled,
    Price,
    cooling_items,
    device_energy,
    open_figures,
    operating_point,
    priced_cells,
    switched_cells,
)
from retrograd.simulator.energy.technology import CAUSES, Charge, Technology

#: (controls, targets, …), as in the circuits of the hardware
_Gate = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class IrreversibleShape:
    """Gates that lose information; one evaluation enters in each cycle of the clock."""

    #: kind of gate -> number
    gates: Mapping[str, int]
    #: kind of cell -> number, in levels, with splitters and buffers
    in_levels: Mapping[str, int]
    levels: int

    @property
    def lost_bits(self) -> float:
        """The bits that all gates lose, each for independent uniform inputs."""
        return sum(n * lost_bits(kind) for kind, n in self.gates.items())


class Timed(NamedTuple):
    """A reversible netlist in levels."""

    #: kind of gate -> number
    kinds: Mapping[str, int]
    levels: int
    #: levels in which a line is held and no gate acts on it, over all lines
    idle: int
    #: levels in which a line is held, over all lines
    held: int


@dataclass(frozen=True)
class ReversibleShape:
    """Gates on lines, in order; one evaluation enters in each cycle of the clock."""

    lines: int
    gates: Sequence[_Gate] = field(repr=False)
    #: lines that begin with data
    inputs: frozenset[int] = frozenset()
    #: lines that end with data, garbage included
    outputs: frozenset[int] = frozenset()
    garbage: int = 0
    #: netlists in levels that were counted before, by the levels of kinds: a comparison prices one netlist by many
    #: figures
    _known: dict[Any, Timed] = field(default_factory=dict, repr=False, compare=False)

    def timed(self, levels: Mapping[str, int], *, peres: bool = False) -> Timed:
        """The netlist in levels; a kind that is not in `levels` takes one level. With `peres`, neighbours that form a Peres gate are one gate."""
        key = tuple(sorted(levels.items())), peres
        if key in self._known:
            return self._known[key]
        kinds: Counter[str] = Counter()
        free = [0] * self.lines
        begin: dict[int, int] = dict.fromkeys(self.inputs, 0)
        busy = 0
        for lines, parts in _peres(self.gates) if peres else map(_parts, self.gates):
            for kind, n in parts:
                kinds[kind] += n
            takes = sum(n * levels.get(kind, 1) for kind, n in parts)
            start = max(free[line] for line in lines)
            for line in lines:
                begin.setdefault(line, start)
                free[line] = start + takes
            busy += takes * len(lines)
        last = max(free, default=0)
        held = sum((last if line in self.outputs else free[line]) - first for line, first in begin.items())
        self._known[key] = Timed(dict(kinds), last, held - busy, held)
        return self._known[key]


def _parts(gate: _Gate) -> tuple[tuple[int, ...], list[tuple[str, int]]]:
    """The lines of a gate, and the sequence of kinds that it is made of.

    A gate of k > 2 controls is 2k − 3 Toffoli gates, with k − 2 ancillas that are not counted as lines. An exchange with more than one control is two
    CNOT gates around such a gate. A negative control costs as a positive one: a line has both of its
    polarities in the gates of all models, as two rails or as the sign of a flux.
    """
    controls, targets = gate[:2]
    k = len(controls)
    if len(targets) == 2:
        parts = [("swap", 1)] if not k else [("Fredkin", 1)] if k == 1 else [("CNOT", 2), ("Toffoli", 2 * k - 1)]
    else:
        parts = [(("X", "CNOT", "Toffoli")[k], 1)] if k < 3 else [("Toffoli", 2 * k - 3)]
    return controls + targets, parts


def _peres(gates: Sequence[_Gate]) -> Iterator[tuple[tuple[int, ...], list[tuple[str, int]]]]:
    """The parts of all gates, where a Toffoli gate beside a CNOT gate between its controls is a Peres gate."""
    place = 0
    while place < len(gates):
        pair = sorted(gates[place : place + 2], key=lambda gate: len(gate[0]))
        if len(pair) == 2 and _is_peres(*pair):
            controls, targets = pair[1][:2]
            yield controls + targets, [("Peres", 1)]
            place += 2
        else:
            yield _parts(gates[place])
            place += 1


def _is_peres(small: _Gate, large: _Gate) -> bool:
    single = len(large[1]) == len(small[1]) == len(small[0]) == 1
    return single and len(large[0]) == 2 and {*small[0], *small[1]} == {*large[0]}


# ---------------------------------------------------------------------- prices

Garbage = Literal["erased", "left"]
Shape = ReversibleShape | IrreversibleShape


def price_netlist(
    shape: Shape,
    technology: Technology,
    *,
    temperature: float | None = None,
    frequency: float | None = None,
    garbage: Garbage = "erased",
) -> Price:
    """The price of one evaluation. `garbage`: whether its bits are erased, or left for an erasure that has no price here.

    Raises InputError RG1108, RG1112.
    """
    kelvins, hertz = operating_point(technology, temperature, frequency)
    pricing = _NetlistPricing(shape, technology, kelvins, hertz, garbage)
    made = [*pricing.items()]
    order = {cause: n for n, cause in enumerate(CAUSES)}
    made += [pricing.uncharged(cause) for cause in CAUSES[:-1] if cause not in {item.cause for item in made}]
    made.sort(key=lambda item: order[item.cause])
    return Price(technology, kelvins, hertz, (*made, *cooling_items(technology, kelvins, made)))


def levels_of(shape: Shape, technology: Technology) -> int:
    """The levels of a netlist, whose reversible gates take the levels of the model."""
    return shape.levels if isinstance(shape, IrreversibleShape) else timed_by(shape, technology).levels


def seconds_of(shape: Shape, price: Price) -> float | None:
    """The time of one evaluation; None for a model without phases or clock."""
    cycles = price.technology.cycles(levels_of(shape, price.technology))
    return None if cycles is None or price.frequency is None else cycles / price.frequency


def timed_by(shape: ReversibleShape, technology: Technology) -> Timed:
    charge = next((charge for charge in technology.charges if charge.law.of_gates), None)
    if charge is None:
        return shape.timed({})
    levels = {kind: round(figure.si.nominal) for kind, figure in charge.levels.items()}
    return shape.timed(levels, peres="Peres" in (charge.cells or {}))


class _NetlistPricing:
    """The state of pricing one netlist."""

    def __init__(
        self, shape: Shape, technology: Technology, kelvins: float, hertz: float | None, garbage: Garbage
    ) -> None:
        self.shape, self.technology, self.kelvins, self.hertz, self.garbage = shape, technology, kelvins, hertz, garbage
        self.timed = timed_by(shape, technology) if isinstance(shape, ReversibleShape) else None

    def items(self) -> Iterator[Item]:
        """The items of charges that apply to the netlist."""
        charges = self.technology.priced_charges
        bits = [c for c in charges if c.law.name == "garbage"] or [c for c in charges if c.law.of_bits]
        if self.timed is not None:
            for charge in charges:
                if charge.law.of_gates:
                    yield from self.gates(charge, self.timed)
                elif charge.law.name == "hold":
                    yield self.hold(charge, self.timed)
            yield from self.erased(bits)
            return
        assert isinstance(self.shape, IrreversibleShape)
        of_cells = [charge for charge in charges if charge.law.name in ("cell", "ramp", "switching", "leakage")]
        for charge in of_cells:
            yield from self.cells(charge, self.shape)
        if not of_cells:
            # A model of erasures prices the bits that each gate loses.
            for charge in charges:
                if charge.law.of_bits:
                    yield self.of_bits(charge, "bits that gates lose", self.shape.lost_bits)

    def uncharged(self, cause: str) -> Item:
        """The item of a cause without a charge. If the model covers the cause, nothing is missing."""
        name, of = (
            self.technology.id,
            {"logic": "gates", "leakage": "gates", "clock": "gates", "erasure": "bits"}.get(cause, ""),
        )
        if (by := self.technology.covered.get(cause)) is not None:
            return Item(cause, f"all {cause}", 0, of, Covered(by), self.kelvins)
        if cause == "memory":
            return self.missing(cause, f"all {cause}", 0, of, "a netlist has no memory")
        if self.timed is None:
            assert isinstance(self.shape, IrreversibleShape)
            gates, bits = sum(self.shape.gates.values()), 0
        else:
            assert isinstance(self.shape, ReversibleShape)
            gates, bits = sum(self.timed.kinds.values()), self.shape.garbage
        return self.missing(cause, f"all {cause}", bits if of == "bits" else gates, of, f"{name} has no figure for it")

    def missing(self, cause: str, label: str, count: float, of: str, why: str) -> Item:
        return Item(cause, label, count, of, NotModelled(why), self.kelvins)

    def gates(self, charge: Charge, timed: Timed) -> Iterator[Item]:
        """Gates of each kind, and lines between them."""
        kinds: Mapping[str, int] = {**timed.kinds, "line": timed.idle}
        if charge.open:
            yield self.missing(charge.cause, charge.label, sum(timed.kinds.values()), "gates", open_figures(charge))
            return
        assert charge.cells is not None
        assert self.hertz is not None
        each = device_energy(charge, self.kelvins, self.hertz)
        for kind, n in kinds.items():
            of = "lines in a level" if kind == "line" else f"{kind} gates"
            label = f"{charge.label}: {'lines held' if kind == 'line' else kind}"
            figure = charge.cells.get(kind)
            if figure is None:
                yield self.missing(
                    charge.cause, label, n, of, f"{self.technology.id} has no figure for the gate {kind}"
                )
                continue
            energy = each * figure.si * n
            yield Item(charge.cause, label, n, of, energy, self.kelvins, (*charge.figures.values(), figure))

    def hold(self, charge: Charge, timed: Timed) -> Item:
        """Lines held over time: the stage of a line in a level is powered in the whole cycle."""
        if charge.open:
            return self.missing(charge.cause, charge.label, timed.held, "lines in a level", open_figures(charge))
        assert self.hertz is not None
        seconds = timed.held / self.hertz
        energy = charge.figures["power"].si * seconds
        return Item(
            charge.cause, charge.label, seconds, "bit seconds", energy, self.kelvins, (charge.figures["power"],)
        )

    def erased(self, charges: list[Charge]) -> Iterator[Item]:
        """Garbage that is erased, or left."""
        assert isinstance(self.shape, ReversibleShape)
        n = self.shape.garbage
        if self.garbage == "left":
            yield self.missing("erasure", "garbage left", n, "bits", "it is left, and its erasure has no price here")
            return
        for charge in charges:
            yield self.of_bits(charge, f"{charge.label}: garbage", n)

    def of_bits(self, charge: Charge, label: str, bits: float) -> Item:
        if charge.open:
            return self.missing(charge.cause, label, bits, "bits", open_figures(charge))
        energy = charge.of_a_bit(self.kelvins, self.hertz) * bits
        return Item(charge.cause, label, bits, "bits", energy, self.kelvins, tuple(charge.figures.values()))

    def cells(self, charge: Charge, shape: IrreversibleShape) -> Iterator[Item]:
        """Each cell once."""
        cells = shape.gates if self.technology.phases is None else shape.in_levels
        if charge.open:
            yield self.missing(charge.cause, charge.label, sum(cells.values()), "cells", open_figures(charge))
            return
        assert charge.cells is not None
        if charge.law.name == "switching":
            energy, known, unknown = switched_cells(charge, {"": cells}, self.kelvins)
        else:
            assert self.hertz is not None
            energy, known, unknown = priced_cells(charge, cells, self.kelvins, self.hertz)
        used = (*charge.figures.values(), *charge.cells.values())
        yield Item(charge.cause, charge.label, known, "cells", energy, self.kelvins, used)
        for kind, n in sorted(unknown.items()):
            why = f"{self.technology.id} has no figure for the cell {kind}"
            yield self.missing(charge.cause, f"{charge.label}: {kind}", n, "cells", why)
