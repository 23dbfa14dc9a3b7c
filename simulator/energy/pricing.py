"""Prices: a pure function from counts, technology, temperature and clock to energies, each with its cause.

    price(a + b) = price(a) + price(b),     price(run back) = price(run)

A part without a figure is `NotModelled`, with the reason, and never 0; a sum that lacks a part is marked. Heat is separated by its
place: the operating temperature, or, for cooling and the host, the ambient temperature.

A `PricingContext` holds model, temperature, clock and gate counts; `pricing_context` makes it from the notation of users. Counts
are also priced at many points: curves over the clock, the cheapest clock, sensitivities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.words import Format
from retrograd.simulator.energy.counts import Counts
from retrograd.simulator.energy.gates import (
    MEMORY_BITS,
    Activity,
    Gates,
    activity_from,
    load_activity,
    load_gates,
    lost_bits,
)
from retrograd.simulator.energy.laws import ramp_energy
from retrograd.simulator.energy.technology import (
    CAUSES,
    HOST_CAUSES,
    OVERHEAD,
    PARTS,
    ZERO,
    Charge,
    Figure,
    Range,
    Size,
    Technology,
    exactly,
    quantity,
    technology,
    thermal_energy,
    with_prefix,
)

# ---------------------------------------------------------------------- devices and cells


class PricedCells(NamedTuple):
    """The price of all cells in one cycle of the clock."""

    energy: Range
    #: cells with a figure
    known: int
    #: kind -> number of cells without a figure
    unknown: dict[str, int]


def device_energy(charge: Charge, kelvins: float, hertz: float) -> Range:
    """The energy of one device, node or held bit in one cycle of the clock."""
    f = charge.figures
    match charge.law.name:
        case "cell" | "gate":
            each = f["energy"].at(kelvins)
            if "at" not in f:
                return each
            scale = sorted((hertz / at) ** e for at in f["at"].si for e in f["exponent"].si)
            nominal = (hertz / f["at"].si.nominal) ** f["exponent"].si.nominal
            return each * Range(scale[0], nominal, scale[-1])
        case "ramp" | "gate ramp" if "quality" in f:
            stored = f["capacitance"].si * f["voltage"].si * f["voltage"].si * f["stored"].si
            return stored * (2 * math.pi) * _falling(f["quality"], lambda quality: 1 / quality)
        case "ramp" | "gate ramp":

            def ramp(r: float, c: float, v: float, ticks: float) -> float:
                return ramp_energy(r, c, v, 1 / (hertz * ticks))

            each = f["resistance"].si.by(ramp, f["capacitance"].si, f["voltage"].si, f["ticks"].si) * f["ramps"].si
            return each * _falling(f["efficiency"], lambda share: 1 / share - 1) if "efficiency" in f else each
        case "leakage" | "hold":
            return f["power"].si * (1 / hertz)
        case name:
            raise AssertionError(name)


def _falling(figure: Figure, f: Callable[[float], float]) -> Range:
    """f, which falls with the figure, at its three points: the highest figure gives the lowest end."""
    lo, nominal, hi = (f(x) for x in figure.si)
    return Range(hi, nominal, lo)


def priced_cells(charge: Charge, cells: Mapping[str, int], kelvins: float, hertz: float) -> PricedCells:
    """All cells once. However slow the clock, no gate costs less than the floor of its law for each bit that it loses: kT ln 2 or more."""
    assert charge.cells is not None
    each = device_energy(charge, kelvins, hertz)
    floor = _of_a_lost_bit(charge, kelvins)
    of_power = charge.law.name == "leakage" or charge.figures.keys() & {"quality", "efficiency"}
    devices, bounded, known = ZERO, ZERO, 0
    unknown: dict[str, int] = {}
    for kind, n in cells.items():
        figure = charge.cells.get(kind, None if kind == MEMORY_BITS else charge.cells.get("any"))
        if figure is None:
            unknown[kind] = n
            continue
        known += n
        least = floor * (0.0 if of_power else lost_bits(kind))
        costs = figure.si * each
        if all(cost >= bound for cost, bound in zip(costs, least, strict=True)):
            devices += figure.si * n
        else:
            bounded += costs.by(max, least) * n
    return PricedCells(devices * each + bounded, known, unknown)


def switched_cells(
    charge: Charge, units: Mapping[str, Mapping[str, int]], kelvins: float, activity: Activity | None = None
) -> PricedCells:
    """All cells in one cycle, by the rises of each: as measured for each unit and kind, or as the model assumes."""
    assert charge.cells is not None
    f, least = charge.figures, exactly(thermal_energy(kelvins))
    each = f["capacitance"].si * f["voltage"].si * f["voltage"].si
    named, energy, known = frozenset(units), ZERO, 0
    unknown: dict[str, int] = {}
    for unit, kinds in units.items():
        for kind, n in kinds.items():
            figure = charge.cells.get(kind, None if kind == MEMORY_BITS else charge.cells.get("any"))
            if figure is None:
                unknown[kind] = unknown.get(kind, 0) + n
                continue
            known += n
            rises = f["activity"].si
            if activity is not None:
                rises = exactly(activity.rises(unit, kind, named))
            energy += (figure.si * rises * each).by(max, least * lost_bits(kind)) * n
    return PricedCells(energy, known, unknown)


def _of_a_lost_bit(charge: Charge, kelvins: float) -> Range:
    """The least energy of a bit that a gate loses: a figure, the charge that no ramp recovers, or kT ln 2."""
    f, bound = charge.figures, exactly(thermal_energy(kelvins))
    if "floor" in f:
        return f["floor"].at(kelvins)
    if "dropped" in f:
        return (f["capacitance"].si * f["voltage"].si * f["voltage"].si * f["dropped"].si).by(max, bound)
    return bound


# ---------------------------------------------------------------------- prices of runs

#: room temperature, for a second column of multiples of kT ln 2
ROOM = 300.0


@dataclass(frozen=True)
class NotModelled:
    """A price without a figure, and the reason."""

    why: str

    def __str__(self) -> str:
        return "not modelled"


@dataclass(frozen=True)
class Covered(NotModelled):
    """A price without a figure of its own, of which nothing is missing: other figures of the model, which `why`
    names, cover it."""

    def __str__(self) -> str:
        return f"covered by {self.why}"


def told(energy: Range | NotModelled) -> Any:
    """For JSON: the range, or the words `not modelled` or `covered by …`."""
    return str(energy) if isinstance(energy, NotModelled) else energy.as_dict()


@dataclass(frozen=True)
class Item:
    """An item of a price: a count, its meaning, and its energy in joules."""

    cause: str
    label: str
    #: number of `of`
    count: float
    of: str
    energy: Range | NotModelled
    #: temperature at which its heat arises, in kelvins
    temperature: float
    figures: tuple[Figure, ...] = ()
    #: whether it is of fetching and decoding instructions, a part of its own
    overhead: bool = False

    @property
    def part(self) -> str:
        """The part of a system that it belongs to: its cause, or `overhead`."""
        return OVERHEAD if self.overhead else self.cause

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        why = self.energy.why if isinstance(self.energy, NotModelled) else None
        return {
            "cause": self.cause, "part": self.part, "label": self.label, "count": self.count, "of": self.of,
            "joules": told(self.energy), "why": why,
            "temperature": self.temperature, "figures": [figure.as_dict() for figure in self.figures],
        }  # fmt: skip


@dataclass(frozen=True)
class Price:
    """The price of a run, or of a part of it."""

    technology: Technology
    temperature: float
    #: None if nothing depends on the clock
    frequency: float | None
    items: tuple[Item, ...]
    #: the parts of a system that are priced; None for all of them, and the host
    parts: frozenset[str] | None = None

    def of(self, cause: str) -> Range | NotModelled:
        """The price of a cause: the sum of its modelled items, or Covered or NotModelled if there are none."""
        found = [item for item in self.items if item.cause == cause]
        priced = [item.energy for item in found if isinstance(item.energy, Range)]
        if not priced:
            if len(found) == 1 and isinstance(found[0].energy, Covered):
                return found[0].energy
            whys = [item.energy.why for item in found if isinstance(item.energy, NotModelled)]
            return NotModelled("; ".join(dict.fromkeys(whys)) or f"{self.technology.id} has no figure for it")
        return sum(priced, ZERO)

    @property
    def scope(self) -> frozenset[str]:
        """The parts of a system that have a figure, or need none."""
        known = {item.part for item in self.items if isinstance(item.energy, Range)} | set(self.technology.covered)
        absent = {item.part for item in self.items} - {item.part for item in self.missing}
        return frozenset((known | absent) & set(PARTS))

    def within(self, scope: frozenset[str]) -> Price:
        """The price of some parts, without the host."""
        return replace(self, items=tuple(item for item in self.items if item.part in scope), parts=scope)

    @property
    def causes(self) -> dict[str, Range | NotModelled]:
        """Cause -> price, for the program and then for the host; only causes of the parts that are priced."""
        parts = self.parts
        wanted = None if parts is None else parts | ({"logic"} if OVERHEAD in parts else set())
        return {cause: self.of(cause) for cause in (*CAUSES, *HOST_CAUSES) if wanted is None or cause in wanted}

    @property
    def missing(self) -> list[Item]:
        """Items that occurred in the run but are in no sum, since the model has no figure for them."""
        return [item for item in self.items if isinstance(item.energy, NotModelled) and item.count]

    def complete(self, *, program: bool = False) -> bool:
        """Whether every item has a figure: all items, or those of `program`."""
        outside = ("cooling", *HOST_CAUSES) if program else ()
        return all(item.cause in outside for item in self.missing)

    @property
    def program(self) -> Range | NotModelled:
        """The sum of the program's modelled items, at the operating temperature."""
        return self._sum(cause for cause in CAUSES if cause != "cooling")

    @property
    def host(self) -> Range | NotModelled:
        """The sum of the modelled items of program load and copy-out."""
        return self._sum(HOST_CAUSES)

    @property
    def total(self) -> Range | NotModelled:
        """The sum of all modelled items, at all temperatures."""
        return self._sum((*CAUSES, *HOST_CAUSES))

    def _sum(self, causes: Iterable[str]) -> Range | NotModelled:
        """The sum of the modelled items; NotModelled if the sum is 0 and an item has no figure."""
        wanted = set(causes)
        items = [item for item in self.items if item.cause in wanted]
        priced = [item.energy for item in items if isinstance(item.energy, Range)]
        lacking = [item.energy.why for item in items if isinstance(item.energy, NotModelled) and item.count]
        total = sum(priced, ZERO)
        if not priced or (lacking and not total.hi):
            return NotModelled("; ".join(dict.fromkeys(lacking)) or f"{self.technology.id} has no figure for it")
        return total

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the sums, and each item with its figures."""
        return {**self.sums(), "items": [item.as_dict() for item in self.items]}

    def sums(self) -> dict[str, Any]:
        """For JSON: multiples of kT ln 2 at the operating temperature and at room temperature, never added."""
        return {
            "temperature": self.temperature,
            "frequency": self.frequency,
            "causes": {cause: told(energy) for cause, energy in self.causes.items()},
            "program": told(self.program),
            "program_ktln2_at_operating_temperature": told(self.in_bits(self.temperature)),
            "program_ktln2_at_300_K": told(self.in_bits(ROOM)),
            "host": told(self.host),
            "total": told(self.total),
            "complete": self.complete(),
            "program_complete": self.complete(program=True),
        }

    def in_bits(self, temperature: float) -> Range | NotModelled:
        """The program's price in multiples of kT ln 2 at a temperature."""
        program = self.program
        return program if isinstance(program, NotModelled) else program / thermal_energy(temperature)


def price(
    counts: Counts,
    technology: Technology,
    *,
    temperature: float | None = None,
    frequency: float | None = None,
    gates: Gates | None = None,
) -> Price:
    """The price of these counts. `temperature` in K, `frequency` in Hz (default: those of the model).

    `gates`: gate counts for the format and core of the counts, for charges by the datapath's cells. Raises InputError RG1108 for a temperature
    or a clock for which the model has no figures, RG1112 for figures below a bound of thermodynamics.
    """
    kelvins, hertz = operating_point(technology, temperature, frequency)
    if gates is not None and (gates.format, gates.core) != (counts.format, counts.core):
        gates = None
    items = [*_Pricing(counts, technology, kelvins, hertz, gates).items()]
    return Price(technology, kelvins, hertz, tuple(items))


def _within(what: str, given: float | None, figure: Figure, technology: Technology) -> float:
    known = figure.si
    if given is None:
        return known.nominal
    # Decimal numbers may differ in the last place.
    if not known.lo * (1 - 1e-12) <= given <= known.hi * (1 + 1e-12):
        unit = "K" if what == "temperature" else "Hz"
        lo, hi = (with_prefix(x, unit) for x in (known.lo, known.hi))
        span = lo if known.lo == known.hi else f"{lo} to {hi}"
        message = f"`{technology.id}` has figures for a {what} of {span}, not {with_prefix(given, unit)}"
        raise InputError(Diagnostic("RG1108", message))
    return given


def cooling_items(technology: Technology, kelvins: float, made: Iterable[Item]) -> Iterator[Item]:
    """The energy to remove the heat of these items, which arises in the cold, as far as that heat is known."""
    charges = [charge for charge in technology.charges if charge.cause == "cooling"]
    made = list(made)
    spent = sum((item.energy for item in made if isinstance(item.energy, Range)), ZERO)
    if not charges:
        # Below room temperature, dissipated heat must be removed.
        count = spent.nominal if kelvins < ROOM else 0
        why = NotModelled(f"{technology.id} has no figure for it")
        yield Item("cooling", "all cooling", count, "J taken away", why, kelvins)
    unknown = [item for item in made if isinstance(item.energy, NotModelled) and item.count]
    for charge in charges:
        overhead = charge.figures["overhead"]
        if charge.open:
            why = NotModelled(open_figures(charge))
            yield Item("cooling", charge.label, spent.nominal, "J taken away", why, kelvins)
            continue
        outside = outside_of(technology, kelvins)
        if spent.hi or not unknown:
            yield Item(
                "cooling", charge.label, spent.nominal, "J taken away", spent * overhead.si, outside, (overhead,)
            )
        for item in unknown:
            why = NotModelled(f"its heat is not modelled: {getattr(item.energy, 'why', '')}")
            yield Item("cooling", f"{charge.label}: {item.label}", item.count, item.of, why, outside)


def outside_of(technology: Technology, kelvins: float) -> float:
    """The temperature around the machine: the temperature at which its cooling gives off heat or, without cooling, its own."""
    cooled = any(charge.cause == "cooling" for charge in technology.charges)
    return technology.ambient.si.nominal if cooled and technology.ambient is not None else kelvins


def operating_point(
    technology: Technology, temperature: float | None, frequency: float | None
) -> tuple[float, float | None]:
    """(kelvins, hertz), by default the values of the model. Raises InputError RG1108, RG1112."""
    kelvins = _within("temperature", temperature, technology.temperature, technology)
    hertz = None
    if technology.frequency is not None:
        hertz = _within("frequency", frequency, technology.frequency, technology)
    elif frequency is not None and technology.timed:
        hertz = frequency
    for _, _, message in technology.below_bounds(kelvins):
        raise InputError(Diagnostic("RG1112", f"`{technology.id}`: {message}"))
    return kelvins, hertz


class _Pricing:
    """The state of pricing one set of counts."""

    def __init__(
        self, counts: Counts, technology: Technology, kelvins: float, hertz: float | None, gates: Gates | None
    ) -> None:
        self.counts, self.technology, self.kelvins, self.hertz, self.gates = counts, technology, kelvins, hertz, gates
        self.outside = outside_of(technology, kelvins)

    def items(self) -> Iterator[Item]:
        """Items of the program, then of the host; each cause has at least one."""
        charges = [c for c in self.technology.priced_charges if not c.law.of_netlists]
        made = [item for charge in charges for item in self.charged(charge)]
        made += self.units_without_figures(charges)
        made += [self.uncharged(cause) for cause in CAUSES[:-1] if cause not in {item.cause for item in made}]
        order = {cause: n for n, cause in enumerate(CAUSES)}
        made.sort(key=lambda item: order[item.cause])
        hosts = [*self.hosts(charges)]
        yield from made
        loaded = (item for item in hosts if item.cause == "program load")
        yield from cooling_items(self.technology, self.kelvins, [*made, *loaded])
        yield from hosts

    def uncharged(self, cause: str) -> Item:
        """The item of a cause without a charge. It is in no sum. If the model covers the cause by other figures, nothing is missing."""
        c, name = self.counts, self.technology.id
        if (by := self.technology.covered.get(cause)) is not None:
            return Item(cause, f"all {cause}", 0, "", Covered(by), self.kelvins)
        count, of = {
            "logic": (c.retired, "instructions"),
            "leakage": (c.cycles, "cycles"),
            "clock": (c.cycles, "cycles"),
            "memory": (c.accesses.reads + c.accesses.writes, "reads and writes"),
            "erasure": (c.erased_bits, "bits"),
        }[cause]
        return self.missing(cause, f"all {cause}", count, of, f"{name} has no figure for it")

    def missing(self, cause: str, label: str, count: float, of: str, why: str) -> Item:
        return Item(cause, label, count, of, NotModelled(why), self.kelvins)

    def charged(self, charge: Charge) -> Iterator[Item]:
        """The items of one charge of the model."""
        c = self.counts
        if charge.open and charge.law.name in ("instruction", "operation"):
            n, of = (c.retired, "instructions") if charge.law.name == "instruction" else self.done(charge)
            yield self.missing(charge.cause, charge.label, n, of, open_figures(charge))
            return
        match charge.law.name:
            case "erased bit" | "dropped charge":
                bits = {"erase": c.erase_bits, "cotangents dropped": c.dropped_bits}
                for label, n in bits.items():
                    yield self.of_bits(charge, charge.cause, f"{charge.label}: {label}", n, self.kelvins)
            case "instruction":
                figure = charge.figures["energy"]
                energy = figure.at(self.kelvins) * c.retired
                yield Item(
                    charge.cause,
                    charge.label,
                    c.retired,
                    "instructions",
                    energy,
                    self.kelvins,
                    (figure,),
                    overhead=True,
                )
            case "operation":
                yield self.operations(charge)
            case "access":
                yield from self.accesses(charge)
            case "hierarchy":
                yield from self.hierarchy(charge)
            case "cell" | "ramp" | "leakage" | "switching":
                yield from self.cells(charge)
            case name:
                raise AssertionError(name)

    def of_bits(self, charge: Charge, cause: str, label: str, bits: int, kelvins: float) -> Item:
        """The price of lost bits, at the temperature of their place."""
        figures = tuple(charge.figures.values())
        if charge.open:
            return Item(cause, label, bits, "bits", NotModelled(open_figures(charge)), kelvins)
        if kelvins != self.kelvins and not all(figure.unit.thermal for figure in figures):
            # A figure in joules is for the operating temperature, and may be less than kT ln 2 elsewhere.
            why = f"{self.technology.id} has no figure for erasing a bit at {kelvins:g} K"
            return Item(cause, label, bits, "bits", NotModelled(why), kelvins)
        return Item(cause, label, bits, "bits", charge.of_a_bit(kelvins, self.hertz) * bits, kelvins, figures)

    def hosts(self, charges: Iterable[Charge]) -> Iterator[Item]:
        """Bits that the host overwrote, priced as erased: in the machine at its temperature, in the host at the ambient temperature."""
        code, data, copied = self.counts.host
        parts = (
            ("program load", "code", code, self.kelvins),
            ("program load", "data", data, self.kelvins),
            ("copy-out", "results, over host memory", copied, self.outside),
        )
        erasing = [charge for charge in charges if charge.cause == "erasure" and charge.law.of_bits]
        for cause, label, bits, kelvins in parts:
            if not erasing:
                yield self.missing(cause, label, bits, "bits", f"{self.technology.id} has no figure for erasing a bit")
            for charge in erasing:
                yield self.of_bits(charge, cause, label, bits, kelvins)

    # ------------------------------------------------------------------ by width, by size

    def done(self, charge: Charge) -> tuple[int, str]:
        """The number of operations of the unit of a charge."""
        return self.counts.operations.get(charge.unit or "", 0), f"operations of the {charge.unit}"

    def operations(self, charge: Charge) -> Item:
        n, of = self.done(charge)
        width = self.counts.format.width
        size = _nearest_width(charge.sizes, width)
        exponent = charge.figures["exponent"]
        ratio = width / size.bits
        scale = sorted(ratio**e for e in exponent.si)
        factor = exactly(1.0) if ratio == 1 else Range(scale[0], ratio**exponent.si.nominal, scale[-1])
        figures = (size.energy,) if ratio == 1 else (size.energy, exponent)
        energy = size.energy.at(self.kelvins) * factor * n
        return Item(charge.cause, charge.label, n, of, energy, self.kelvins, figures)

    def units_without_figures(self, charges: Iterable[Charge]) -> list[Item]:
        """Units with operations that no charge prices, in a model that charges operations."""
        priced = {charge.unit for charge in charges if charge.law.name == "operation"}
        if not priced:
            return []
        why = f"{self.technology.id} has no figure for it"
        return [
            self.missing("logic", f"the {unit}", n, f"operations of the {unit}", why)
            for unit, n in sorted(self.counts.operations.items())
            if unit not in priced
        ]

    def memories(self, charge: Charge) -> list[tuple[float, dict[bool, Size]]]:
        """(capacity in words, figures) of the memories up to the smallest that holds the data; an empty list if no
        memory does."""
        word = self.counts.format.width / 8
        found = [(size / word, figures) for size, figures in charge.memories]
        fitting = [k for k, (capacity, _) in enumerate(found) if capacity >= self.counts.footprint]
        return found[: fitting[0] + 1] if fitting else []

    def without_memory(self, charge: Charge) -> Item:
        access = self.counts.accesses
        why = f"no figure for a memory of {self.counts.footprint * self.counts.format.width / 8:.0f} bytes"
        return self.missing(charge.cause, charge.label, access.reads + access.writes, "reads and writes", why)

    def accesses(self, charge: Charge) -> Iterator[Item]:
        """All accesses in the smallest memory that holds the data."""
        access, memories = self.counts.accesses, self.memories(charge)
        if not memories:
            yield self.without_memory(charge)
            return
        _, figures = memories[-1]
        if (size := figures[False]) == figures[True]:
            energy = size.energy.at(self.kelvins) * (access.bits / size.bits)
            count = access.reads + access.writes
            yield Item(charge.cause, charge.label, count, "reads and writes", energy, self.kelvins, (size.energy,))
            return
        for written, size in figures.items():
            yield self.words(charge.cause, charge.label, self.counts.accessed(written=written), size, written)

    def hierarchy(self, charge: Charge) -> Iterator[Item]:
        """All accesses in the first memory; in each further one the words that miss the memory before it, or leave
        it changed."""
        c, memories = self.counts, self.memories(charge)
        if not memories:
            yield self.without_memory(charge)
            return
        if len(memories) > 1 and c.traffic is None:
            why = "the addresses of the run were not observed"
            count = c.accesses.reads + c.accesses.writes
            yield self.missing(charge.cause, charge.label, count, "reads and writes", why)
            return
        before: float | None = None
        for capacity, figures in memories:
            for written, size in figures.items():
                n = c.accessed(written=written) if before is None else c.between(before, written=written)
                place = "any size" if size.capacity is None else f"{size.capacity / 1024:g} KiB"
                yield self.words(charge.cause, f"{charge.label}, {place}", n, size, written)
            before = capacity

    def words(self, cause: str, label: str, n: int, size: Size, written: bool) -> Item:
        """The price of words that are read from, or written to, a memory."""
        energy = size.energy.at(self.kelvins) * (n * self.counts.format.width / size.bits)
        of = "words written" if written else "words read"
        return Item(cause, f"{label}: {'writes' if written else 'reads'}", n, of, energy, self.kelvins, (size.energy,))

    # ------------------------------------------------------------------ by cells

    def cells(self, charge: Charge) -> Iterator[Item]:
        """The price of every cell of the datapath in every cycle."""
        of = "cell cycles"
        if charge.open:
            yield self.missing(charge.cause, charge.label, self.counts.cycles, "cycles", open_figures(charge))
            return
        if self.gates is None:
            why = f"no gate counts for {self.counts.format}" + f" on the core {self.counts.core}" * (
                self.counts.core != "small"
            )
            yield self.missing(charge.cause, charge.label, self.counts.cycles, "cycles", why)
            return
        clocks = self.technology.cycles(self.gates.levels or 0) or 1
        if self.technology.phases is not None and self.gates.levels is None:
            why = (
                f"the gate counts for {self.counts.format} have no levels, and {self.technology.id} is clocked by them"
            )
            yield self.missing(charge.cause, charge.label, self.counts.cycles, "cycles", why)
            return
        assert charge.cells is not None
        figures = dict(charge.figures)
        if charge.law.name == "switching":
            activity = self.gates.activity
            if activity is not None and not activity.is_of(self.counts.program):
                why = f"the activity was measured of another program, {activity.program}"
                yield self.missing(charge.cause, charge.label, self.counts.cycles, "cycles", why)
                return
            energy, known, unknown = switched_cells(charge, self.gates.units, self.kelvins, activity)
            if activity is not None:
                figures["activity"] = activity.figure(figures["activity"])
        else:
            assert self.hertz is not None
            cells = self.gates.cells(in_levels=self.technology.phases is not None)
            energy, known, unknown = priced_cells(charge, cells, self.kelvins, self.hertz)
        times = self.counts.cycles * clocks
        used = (*figures.values(), *charge.cells.values())
        yield Item(charge.cause, charge.label, known * times, of, energy * times, self.kelvins, used)
        for kind, n in sorted(unknown.items()):
            why = f"{self.technology.id} has no figure for the cell {kind}"
            yield self.missing(charge.cause, f"{charge.label}: {kind}", n * times, of, why)


def open_figures(charge: Charge) -> str:
    """Open figures that the user must give before there is a price."""
    return f"give {', '.join(charge.open)}"


def _nearest_width(sizes: Iterable[Size], width: int) -> Size:
    """The figure for the widest words that are not wider than W, or else for the narrowest words."""
    ordered = sorted(sizes, key=lambda s: s.bits)
    return next((s for s in reversed(ordered) if s.bits <= width), ordered[0])


# ---------------------------------------------------------------------- prices at many points

#: relative step to either side, for the slope
_STEP = 1e-4
#: 1 − 1/φ: the next point of golden-section search
_GOLDEN = (3 - math.sqrt(5)) / 2


class FrequencyPoint(NamedTuple):
    """The price of the program at a clock, without cooling and host."""

    frequency: float
    energy: Range | NotModelled


def at_frequencies(
    counts: Counts,
    technology: Technology,
    gates: Gates | None = None,
    temperature: float | None = None,
    points: int = 60,
) -> list[FrequencyPoint]:
    """Prices at clocks evenly spaced in the logarithm, over the model's range; an empty list if the model has no clock."""
    if not technology.timed or technology.frequency is None:
        return []
    known = technology.frequency.si
    out = []
    for i in range(points):
        share = i / max(points - 1, 1)
        # The ends equal those of the model to the last place.
        f = known.lo if i == 0 else known.hi if i == points - 1 else known.lo * (known.hi / known.lo) ** share
        out.append(
            FrequencyPoint(f, price(counts, technology, temperature=temperature, frequency=f, gates=gates).program)
        )
    return out


def optimum_frequency(
    counts: Counts, technology: Technology, gates: Gates | None = None, temperature: float | None = None
) -> FrequencyPoint | None:
    """The clock with the least energy, if one part of the price rises with the clock and another falls.

    None if energy only rises or only falls with the clock, or is not modelled.
    """
    if not technology.timed or technology.frequency is None:
        return None

    def at(log_f: float) -> Range | NotModelled:
        f = min(max(math.exp(log_f), known.lo), known.hi)
        return price(counts, technology, temperature=temperature, frequency=f, gates=gates).program

    def nominal(log_f: float) -> float:
        found = at(log_f)
        return math.inf if isinstance(found, NotModelled) else found.nominal

    known = technology.frequency.si
    lo, hi = math.log(known.lo), math.log(known.hi)
    best = _least(nominal, lo, hi)
    margin = 1e-6 * (hi - lo)
    if not math.isfinite(nominal(best)) or best - lo < margin or hi - best < margin:
        return None
    return FrequencyPoint(math.exp(best), at(best))


class Sensitivity(NamedTuple):
    """The change of a price in per cent for one per cent of a quantity. None: it is not modelled, or 0 J."""

    #: temperature, frequency or cooling
    quantity: str
    #: of the program's price
    program: float | None
    #: of the total, with host and cooling
    total: float | None


def sensitivities(
    counts: Counts,
    technology: Technology,
    gates: Gates | None = None,
    temperature: float | None = None,
    frequency: float | None = None,
) -> list[Sensitivity]:
    """d ln E / d ln x for the temperature and the clock, where the model has figures nearby, and for cooling.

    Trap: only modelled items contribute. A part without a figure changes no price.
    """

    def at(kelvins: float, hertz: float | None) -> tuple[Range | NotModelled, Range | NotModelled]:
        found = price(counts, technology, temperature=kelvins, frequency=hertz, gates=gates)
        return found.program, found.total

    here = price(counts, technology, temperature=temperature, frequency=frequency, gates=gates)
    t, f = here.temperature, here.frequency
    out = []
    if (ends := _beside(t, technology.temperature.si)) is not None:
        slopes = [_slope(a, b, ends) for a, b in zip(*(at(end, f) for end in ends), strict=True)]
        out.append(Sensitivity("temperature", *slopes))
    if f is not None and technology.timed and technology.frequency is not None:
        ends = _beside(f, technology.frequency.si)
        if ends is not None:
            slopes = [_slope(a, b, ends) for a, b in zip(*(at(t, end) for end in ends), strict=True)]
            out.append(Sensitivity("frequency", *slopes))
    cooling, total = here.of("cooling"), here.total
    if isinstance(cooling, Range) and isinstance(total, Range) and total.nominal:
        # The energy of cooling is proportional to its figure.
        out.append(Sensitivity("cooling", 0.0, cooling.nominal / total.nominal))
    return out


def _beside(x: float, known: Range) -> tuple[float, float] | None:
    """Values slightly below and above, within the range of the figures."""
    lo, hi = max(known.lo, x * (1 - _STEP)), min(known.hi, x * (1 + _STEP))
    return (lo, hi) if hi > lo * (1 + _STEP / 2) else None


def _slope(low: Range | NotModelled, high: Range | NotModelled, ends: tuple[float, float]) -> float | None:
    if isinstance(low, NotModelled) or isinstance(high, NotModelled) or not low.nominal or not high.nominal:
        return None
    return math.log(high.nominal / low.nominal) / math.log(ends[1] / ends[0])


def _least(f: Callable[[float], float], lo: float, hi: float) -> float:
    """The minimum of f, which falls and then rises, by golden-section search."""
    a, b = lo + _GOLDEN * (hi - lo), hi - _GOLDEN * (hi - lo)
    fa, fb = f(a), f(b)
    while hi - lo > 1e-9 * max(1.0, abs(lo), abs(hi)):
        if fa <= fb:
            hi, b, fb = b, a, fa
            a = lo + _GOLDEN * (hi - lo)
            fa = f(a)
        else:
            lo, a, fa = a, b, fb
            b = hi - _GOLDEN * (hi - lo)
            fb = f(b)
    return (lo + hi) / 2


# ---------------------------------------------------------------------- contexts

#: a quantity: in SI units, or as text with its unit
Quantity = float | str
#: figures that a model leaves open, by name: as quantities, or (lo, nominal, hi) in SI units
Figures = Mapping[str, Quantity | tuple[float, float, float]]


@dataclass(frozen=True)
class PricingContext:
    """The conditions under which counts are priced."""

    technology: Technology
    temperature: float | None = None
    frequency: float | None = None
    gates: Gates | None = None
    #: the parts that are priced; None: all
    scope: frozenset[str] | None = None

    def price(self, counts: Counts) -> Price:
        """The price of the counts. Raises InputError RG1108, RG1112."""
        whole = price(counts, self.technology, temperature=self.temperature, frequency=self.frequency, gates=self.gates)
        return whole if self.scope is None else whole.within(self.scope)

    @property
    def clocks(self) -> int:
        """Cycles of the clock in a cycle of the core: more than one where a signal passes only some levels in a clock cycle."""
        levels = None if self.gates is None else self.gates.levels
        return (None if levels is None else self.technology.cycles(levels)) or 1


def pricing_context(
    tech: str | Path | Technology,
    w: Format | None,
    *,
    temperature: Quantity | None = None,
    frequency: Quantity | None = None,
    figures: Figures | None = None,
    gates: str | Path | Gates | None = None,
    activity: str | Path | Activity | Mapping[str, Any] | None = None,
) -> PricingContext:
    """The context from the notation of users. A context for netlists has no format and needs no gate counts. Raises InputError RG0507, RG1101 to RG1110, RG1114."""
    model = tech if isinstance(tech, Technology) else technology(tech)
    if figures:
        known = {name: figure for charge in model.charges for name, figure in charge.figures.items()}
        given = {}
        for name, value in figures.items():
            measures = known[name].unit.measures if name in known else ""
            if isinstance(value, tuple):
                given[name] = _range(name, value)
            else:
                text = isinstance(value, str)
                found = quantity(str(value), measures, name, with_unit=text) if measures else (0.0, 0.0, 0.0)
                given[name] = Range(*found)
        model = model.with_figures(given)
    if gates is None:
        gates = None if w is None else gates_for(w)
    elif not isinstance(gates, Gates):
        gates = load_gates(Path(gates))
    if activity is not None:
        gates = _with_activity(model, w, gates, activity)
    kelvins = None if temperature is None else quantity(str(temperature), "temperature", "temperature")[1]
    hertz = None if frequency is None else quantity(str(frequency), "frequency", "frequency")[1]
    return PricingContext(model, kelvins, hertz, gates)


def _with_activity(
    model: Technology, w: Format | None, gates: Gates | None, given: str | Path | Activity | Mapping[str, Any]
) -> Gates | None:
    """The gate counts with the activity that was measured. Raises InputError RG1114."""
    if isinstance(given, str | Path):
        given = load_activity(Path(given))
    elif not isinstance(given, Activity):
        given = activity_from(given, "activity")

    def wrong(message: str, hint: str) -> InputError:
        return InputError(Diagnostic("RG1114", f"{given.file or 'activity'}: {message}", hint=hint))

    if not model.by_activity:
        raise wrong(
            f"no charge of `{model.id}` depends on activity", "a model with the law `switching`, such as cmos_switching"
        )
    if given.format != w:
        raise wrong(f"it is of {given.format}, and the run of {w}", "measure it in the format of the run")
    if given.core != (core := "small" if gates is None else gates.core):
        raise wrong(
            f"it is of the core {given.core}, and the gate counts of {core}",
            "measure it on the core of the gate counts",
        )
    return None if gates is None else replace(gates, activity=given)


def _range(name: str, value: tuple[Any, ...]) -> Range:
    """A figure given as (lo, nominal, hi). Raises InputError RG0507."""
    try:
        lo, nominal, hi = (float(x) for x in value)
    except (TypeError, ValueError, OverflowError):
        hint = "three numbers in SI units: (lo, nominal, hi)"
        raise InputError(Diagnostic("RG0507", f"`{name:.40}` is no range of a figure", hint=hint)) from None
    return Range(lo, nominal, hi)


def gates_for(w: Format) -> Gates | None:
    """The gate counts that come with the hardware for this format, if there are any."""
    from importlib.util import find_spec

    hardware = find_spec("retrograd.hdl.flow")
    for folder in (hardware.submodule_search_locations or ()) if hardware is not None else ():
        for path in sorted(Path(folder).glob("gates_*.json")):
            found = load_gates(path)
            if found.format == w:
                return found
    return None
