"""Prices: counts, a technology, a temperature and a clock to energies, each with its cause. A pure function.

    price(a + b) = price(a) + price(b),     price(run back) = price(run)

Whatever the model has no figure for is `NotModelled`, with the reason, and never 0; a sum that misses something says so.
Heat is told apart by where it arises: at the operating temperature, or, of cooling and of the host, at the ambient one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.simulator.energy.counting import Counts
from retrograd.simulator.energy.figures import ZERO, Figure, Range, exactly
from retrograd.simulator.energy.gates import MEMORY_BITS, Gates
from retrograd.simulator.energy.laws import ramp_energy
from retrograd.simulator.energy.technology import CAUSES, HOST_CAUSES, Charge, Size, Technology
from retrograd.simulator.energy.units import thermal_energy, with_prefix

#: the room, in which multiples of kT ln 2 are told besides those at the operating temperature
ROOM = 300.0


@dataclass(frozen=True)
class NotModelled:
    """What a technology has no figure for, and why."""

    why: str

    def __str__(self) -> str:
        return "not modelled"


def told(energy: Range | NotModelled) -> Any:
    """For JSON: the range, or the words `not modelled`."""
    return str(energy) if isinstance(energy, NotModelled) else energy.as_dict()


@dataclass(frozen=True)
class Item:
    """One thing that was paid for: how much of what, and its energy in joules."""

    cause: str
    label: str
    #: how many of `of`
    count: float
    of: str
    energy: Range | NotModelled
    #: where its heat arises, in kelvins
    temperature: float
    figures: tuple[Figure, ...] = ()

    def bits_at(self, temperature: float) -> Range | None:
        """Its energy in multiples of kT ln 2 at this temperature; None where it is not modelled."""
        if isinstance(self.energy, NotModelled):
            return None
        return self.energy / thermal_energy(temperature)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        why = self.energy.why if isinstance(self.energy, NotModelled) else None
        return {
            "cause": self.cause, "label": self.label, "count": self.count, "of": self.of,
            "joules": told(self.energy), "why": why,
            "temperature": self.temperature, "figures": [figure.as_dict() for figure in self.figures],
        }  # fmt: skip


@dataclass(frozen=True)
class Price:
    """What a run, or a part of one, costs."""

    technology: Technology
    temperature: float
    #: None where nothing depends on the clock
    frequency: float | None
    items: tuple[Item, ...]

    def of(self, cause: str) -> Range | NotModelled:
        """What was paid for one cause: the sum of what is modelled of it, or NotModelled if nothing is."""
        found = [item for item in self.items if item.cause == cause]
        priced = [item.energy for item in found if isinstance(item.energy, Range)]
        if not priced:
            whys = [item.energy.why for item in found if isinstance(item.energy, NotModelled)]
            return NotModelled("; ".join(dict.fromkeys(whys)) or f"{self.technology.id} has no figure for it")
        return _total(priced)

    @property
    def causes(self) -> dict[str, Range | NotModelled]:
        """cause -> what was paid for it, by the program and then by the host."""
        return {cause: self.of(cause) for cause in (*CAUSES, *HOST_CAUSES)}

    @property
    def missing(self) -> list[Item]:
        """What happened and is in no sum, since the model has no figure for it."""
        return [item for item in self.items if isinstance(item.energy, NotModelled) and item.count]

    def complete(self, *, program: bool = False) -> bool:
        """Whether all that happened has a figure: all, or all that is summed up in `program`."""
        outside = ("cooling", *HOST_CAUSES) if program else ()
        return all(item.cause in outside for item in self.missing)

    @property
    def program(self) -> Range | NotModelled:
        """All that is modelled of what the program did, at the operating temperature."""
        return self._sum(cause for cause in CAUSES if cause != "cooling")

    @property
    def host(self) -> Range | NotModelled:
        """All that is modelled of program load and copy-out."""
        return self._sum(HOST_CAUSES)

    @property
    def total(self) -> Range | NotModelled:
        """All that is modelled, at whatever temperature it arises."""
        return self._sum((*CAUSES, *HOST_CAUSES))

    def _sum(self, causes: Iterable[str]) -> Range | NotModelled:
        """The sum of what is modelled. One that misses something and comes to nothing says nothing."""
        wanted = set(causes)
        items = [item for item in self.items if item.cause in wanted]
        priced = [item.energy for item in items if isinstance(item.energy, Range)]
        lacking = [item.energy.why for item in items if isinstance(item.energy, NotModelled) and item.count]
        total = _total(priced)
        if not priced or (lacking and not total.hi):
            return NotModelled("; ".join(dict.fromkeys(lacking)) or f"{self.technology.id} has no figure for it")
        return total

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the sums, and each item with its figures."""
        return {**self.sums(), "items": [item.as_dict() for item in self.items]}

    def sums(self) -> dict[str, Any]:
        """For JSON: multiples of kT ln 2 are told at the operating temperature and at that of the room, never added."""
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
        """What the program cost, in multiples of kT ln 2 at one temperature."""
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
    """What these counts cost. `temperature` in K, `frequency` in Hz: those of the model unless given.

    `gates`: of the counts' format, for what depends on the datapath's cells. Raises InputError RG1108 for a temperature
    or a clock for which the model has no figures, RG1112 for figures below a bound of thermodynamics.
    """
    kelvins = _within("temperature", temperature, technology.temperature, technology)
    hertz = None
    if technology.frequency is not None:
        hertz = _within("frequency", frequency, technology.frequency, technology)
    elif frequency is not None and technology.timed:
        hertz = frequency
    if gates is not None and gates.format != counts.format:
        gates = None
    for _, _, message in technology.below_bounds(kelvins):
        raise InputError(Diagnostic("RG1112", f"`{technology.id}`: {message}"))
    items = [*_Pricing(counts, technology, kelvins, hertz, gates).items()]
    return Price(technology, kelvins, hertz, tuple(items))


def _within(what: str, given: float | None, figure: Figure, technology: Technology) -> float:
    known = figure.si
    if given is None:
        return known.nominal
    # What is written in decimal may differ in the last place.
    if not known.lo * (1 - 1e-12) <= given <= known.hi * (1 + 1e-12):
        unit = "K" if what == "temperature" else "Hz"
        lo, hi = (with_prefix(x, unit) for x in (known.lo, known.hi))
        span = lo if known.lo == known.hi else f"{lo} to {hi}"
        message = f"`{technology.id}` has figures for a {what} of {span}, not {with_prefix(given, unit)}"
        raise InputError(Diagnostic("RG1108", message))
    return given


def _total(energies: Iterable[Range]) -> Range:
    total = ZERO
    for energy in energies:
        total += energy
    return total


class _Pricing:
    """One price in the making."""

    def __init__(
        self, counts: Counts, technology: Technology, kelvins: float, hertz: float | None, gates: Gates | None
    ) -> None:
        self.counts, self.technology, self.kelvins, self.hertz, self.gates = counts, technology, kelvins, hertz, gates
        cooled = any(charge.cause == "cooling" for charge in technology.charges)
        self.outside = technology.ambient.si.nominal if cooled and technology.ambient is not None else kelvins

    def items(self) -> Iterator[Item]:
        """The program's, then the host's; each cause has at least one."""
        charges = [charge for charge in self.technology.charges if charge.cause != "cooling"]
        made = [item for charge in charges for item in self.charged(charge)]
        made += self.units_without_figures(charges)
        made += [self.uncharged(cause) for cause in CAUSES[:-1] if cause not in {item.cause for item in made}]
        order = {cause: n for n, cause in enumerate(CAUSES)}
        made.sort(key=lambda item: order[item.cause])
        hosts = [*self.hosts(charges)]
        yield from made
        yield from self.cooling([*made, *(item for item in hosts if item.cause == "program load")])
        yield from hosts

    def uncharged(self, cause: str) -> Item:
        """A cause without a charge: what happened of it is in no sum, unless the model covers it by other figures."""
        c, name = self.counts, self.technology.id
        if cause in self.technology.covered:
            return self.missing(cause, f"all {cause}", 0, "", f"{name} has no figure for it by itself")
        count, of = {
            "logic": (c.retired, "instructions"),
            "leakage": (c.cycles, "cycles"),
            "clock": (c.cycles, "cycles"),
            "memory": (c.accesses.reads + c.accesses.writes, "reads and writes"),
            "erasure": (c.erased_bits, "bits"),
        }[cause]
        return self.missing(cause, f"all {cause}", count, of, f"{name} has no figure for it")

    def cooling(self, made: list[Item]) -> Iterator[Item]:
        """What it takes to carry away the heat that arises in the cold, as far as that is known."""
        if "cooling" not in {charge.cause for charge in self.technology.charges}:
            # Below the temperature of the room, what is dissipated must be taken away.
            heat = _total(item.energy for item in made if isinstance(item.energy, Range)).nominal
            count = heat if self.kelvins < ROOM else 0
            yield self.missing(
                "cooling", "all cooling", count, "J taken away", f"{self.technology.id} has no figure for it"
            )
            return
        spent = _total(item.energy for item in made if isinstance(item.energy, Range))
        unknown = [item for item in made if isinstance(item.energy, NotModelled) and item.count]
        for charge in self.technology.charges:
            if charge.cause != "cooling":
                continue
            overhead = charge.figures["overhead"]
            if charge.open:
                yield self.missing("cooling", charge.label, spent.nominal, "J taken away", _open(charge))
                continue
            if spent.hi or not unknown:
                energy = spent * overhead.si
                yield Item("cooling", charge.label, spent.nominal, "J taken away", energy, self.outside, (overhead,))
            for item in unknown:
                why = f"its heat is not modelled: {item.energy.why}" if isinstance(item.energy, NotModelled) else ""
                label = f"{charge.label}: {item.label}"
                yield Item("cooling", label, item.count, item.of, NotModelled(why), self.outside)

    def missing(self, cause: str, label: str, count: float, of: str, why: str) -> Item:
        return Item(cause, label, count, of, NotModelled(why), self.kelvins)

    def charged(self, charge: Charge) -> Iterator[Item]:
        """What one charge of the model comes to."""
        c = self.counts
        if charge.open and charge.law.name in ("instruction", "operation"):
            n, of = (c.retired, "instructions") if charge.law.name == "instruction" else self.done(charge)
            yield self.missing(charge.cause, charge.label, n, of, _open(charge))
            return
        match charge.law.name:
            case "erased bit" | "dropped charge":
                bits = {"erase": c.erase_bits, "cotangents dropped": c.dropped_bits}
                for label, n in bits.items():
                    yield self.of_bits(charge, charge.cause, f"{charge.label}: {label}", n, self.kelvins)
            case "instruction":
                yield self.item(charge, c.retired, "instructions", charge.figures["energy"])
            case "operation":
                yield self.operations(charge)
            case "access":
                yield self.accesses(charge)
            case "cell" | "ramp" | "leakage":
                yield from self.cells(charge)
            case name:
                raise AssertionError(name)

    def item(self, charge: Charge, count: float, of: str, figure: Figure) -> Item:
        return Item(charge.cause, charge.label, count, of, figure.at(self.kelvins) * count, self.kelvins, (figure,))

    def of_bits(self, charge: Charge, cause: str, label: str, bits: int, kelvins: float) -> Item:
        """Bits lost, at the temperature of where they were."""
        figures = tuple(charge.figures.values())
        if charge.open:
            return Item(cause, label, bits, "bits", NotModelled(_open(charge)), kelvins)
        if kelvins != self.kelvins and not all(figure.unit.thermal for figure in figures):
            # In joules it is for the operating temperature, and may be less than kT ln 2 elsewhere.
            why = f"{self.technology.id} has no figure for erasing a bit at {kelvins:g} K"
            return Item(cause, label, bits, "bits", NotModelled(why), kelvins)
        return Item(cause, label, bits, "bits", charge.of_a_bit(kelvins) * bits, kelvins, figures)

    def hosts(self, charges: Iterable[Charge]) -> Iterator[Item]:
        """What the host overwrote, priced as bits erased: the machine's where the machine is, its own where it is itself."""
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
        """How many operations the unit of a charge did."""
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
        """Units that worked and whose operations no charge knows, of a model that charges operations."""
        priced = {charge.unit for charge in charges if charge.law.name == "operation"}
        if not priced:
            return []
        why = f"{self.technology.id} has no figure for it"
        return [
            self.missing("logic", f"the {unit}", n, f"operations of the {unit}", why)
            for unit, n in sorted(self.counts.operations.items())
            if unit not in priced
        ]

    def accesses(self, charge: Charge) -> Item:
        access, w = self.counts.accesses, self.counts.format
        beside = 2 if any(e.lifted for e in self.counts.executions) else 1
        needed = self.counts.program.memory * beside * w.width / 8
        fitting = [s for s in charge.sizes if s.capacity is not None and s.capacity >= needed]
        of = "reads and writes"
        count = access.reads + access.writes
        any_size = next((s for s in charge.sizes if s.capacity is None), None)
        size = min(fitting, key=lambda s: s.capacity or 0) if fitting else any_size
        if size is None:
            return self.missing(charge.cause, charge.label, count, of, f"no figure for a memory of {needed:.0f} bytes")
        energy = size.energy.at(self.kelvins) * (access.bits / size.bits)
        return Item(charge.cause, charge.label, count, of, energy, self.kelvins, (size.energy,))

    # ------------------------------------------------------------------ by cells

    def cells(self, charge: Charge) -> Iterator[Item]:
        """Of every cell of the datapath, in every cycle."""
        of = "cell cycles"
        if charge.open:
            yield self.missing(charge.cause, charge.label, self.counts.cycles, "cycles", _open(charge))
            return
        if self.gates is None:
            why = f"no gate counts for {self.counts.format}"
            yield self.missing(charge.cause, charge.label, self.counts.cycles, "cycles", why)
            return
        assert charge.cells is not None
        total, known, unknown = ZERO, 0, {}
        for kind, n in self.gates.cells().items():
            figure = charge.cells.get(kind, None if kind == MEMORY_BITS else charge.cells.get("any"))
            if figure is None:
                unknown[kind] = n
            else:
                total, known = total + figure.si * n, known + n
        each, figures = self.per_cell_cycle(charge)
        energy = total * each * self.counts.cycles
        used = (*figures, *charge.cells.values())
        yield Item(charge.cause, charge.label, known * self.counts.cycles, of, energy, self.kelvins, used)
        for kind, n in sorted(unknown.items()):
            why = f"{self.technology.id} has no figure for the cell {kind}"
            yield self.missing(charge.cause, f"{charge.label}: {kind}", n * self.counts.cycles, of, why)

    def per_cell_cycle(self, charge: Charge) -> tuple[Range, tuple[Figure, ...]]:
        """The energy of one device, or node, in one cycle."""
        f = charge.figures
        assert self.hertz is not None
        match charge.law.name:
            case "cell":
                each = f["energy"].at(self.kelvins)
                if "at" in f:
                    scale = sorted((self.hertz / at) ** e for at in f["at"].si for e in f["exponent"].si)
                    nominal = (self.hertz / f["at"].si.nominal) ** f["exponent"].si.nominal
                    each = each * Range(scale[0], nominal, scale[-1])
            case "ramp":
                hertz = self.hertz

                def ramp(r: float, c: float, v: float, ticks: float) -> float:
                    return ramp_energy(r, c, v, 1 / (hertz * ticks))

                each = f["resistance"].si.by(ramp, f["capacitance"].si, f["voltage"].si, f["ticks"].si) * f["ramps"].si
            case "leakage":
                each = f["power"].si * (1 / self.hertz)
            case name:
                raise AssertionError(name)
        return each, tuple(f.values())


def _open(charge: Charge) -> str:
    """What must be given before it has a price."""
    return f"give {', '.join(charge.open)}"


def _nearest_width(sizes: Iterable[Size], width: int) -> Size:
    """The figure for the widest words that are no wider, else for the narrowest."""
    ordered = sorted(sizes, key=lambda s: s.bits)
    return next((s for s in reversed(ordered) if s.bits <= width), ordered[0])
