"""Technology models: figures with units, ranges, sources and evidence, and the laws that price by them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError, nearest
from retrograd.simulator.energy.figures import Figure, Range
from retrograd.simulator.energy.laws import Law, limits
from retrograd.simulator.energy.units import SI, thermal_energy, with_prefix

#: causes of energy; the host's are separate, as `program load` and `copy-out`
CAUSES = ("logic", "leakage", "clock", "memory", "erasure", "cooling")
HOST_CAUSES = ("program load", "copy-out")
#: the part of a system that fetches and decodes instructions; its cause is logic
OVERHEAD = "overhead"
PARTS = (*CAUSES, OVERHEAD)


@dataclass(frozen=True)
class Size:
    """A figure for one size: words of `bits`, or a memory of `capacity` accessed by `bits`."""

    bits: int
    energy: Figure
    #: bytes; None: any
    capacity: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the figure and its size."""
        return {**self.energy.as_dict(), "bits": self.bits, "capacity_bytes": self.capacity}


@dataclass(frozen=True)
class Charge:
    """A charge: a part of the energy, by one law."""

    cause: str
    label: str
    law: Law
    figures: Mapping[str, Figure]
    #: the function unit whose micro-operations are charged
    unit: str | None = None
    sizes: tuple[Size, ...] = ()
    #: kind of cell in a netlist, or of reversible gate, -> devices, nodes, … of one
    cells: Mapping[str, Figure] | None = None
    #: kind of reversible gate -> the levels that it takes, where it is not one
    levels: Mapping[str, Figure] = field(default_factory=dict)

    def all_figures(self) -> Iterator[Figure]:
        """The figures on which its price depends."""
        yield from self.figures.values()
        yield from (size.energy for size in self.sizes)
        yield from (self.cells or {}).values()
        yield from self.levels.values()

    @property
    def part(self) -> str:
        """The part of a system that it prices: its cause, or `overhead` for the instructions themselves."""
        return OVERHEAD if self.law.name == "instruction" else self.cause

    @property
    def timed(self) -> bool:
        """Whether its energy depends on the clock."""
        return self.law.timed or "finite_time" in self.figures

    def of_a_bit(self, kelvins: float, hertz: float | None = None) -> Range:
        """The energy of erasing one bit in a time of 1/`hertz`; slowly without it. Trap: open figures and laws that price no bits have none."""
        if "energy" in self.figures:
            more = self.figures.get("finite_time")
            slow = self.figures["energy"].at(kelvins)
            return slow if more is None or hertz is None else slow + more.si * hertz
        c, v = self.figures["capacitance"].si, self.figures["voltage"].si
        return c * v * v * 0.5

    @property
    def open(self) -> list[str]:
        """The figures that the model leaves open."""
        return [name for name, figure in self.figures.items() if figure.written is None]


#: relative tolerance of bounds, since decimal numbers may differ in the last places
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Technology:
    """A technology: its charges, with figures, temperatures and clocks."""

    id: str
    version: str
    title: str
    doc: str
    temperature: Figure
    charges: tuple[Charge, ...]
    frequency: Figure | None = None
    #: temperature at which the heat of cooling arises
    ambient: Figure | None = None
    #: levels of a netlist that a signal passes in one cycle of the clock
    phases: Figure | None = None
    #: parts without a charge that are complete: part of other figures, or nothing
    covered: tuple[str, ...] = ()
    #: the file from which it was read
    file: str = ""

    @property
    def timed(self) -> bool:
        """Whether its prices depend on the clock."""
        return any(charge.timed for charge in self.charges)

    def cycles(self, levels: int) -> int | None:
        """⌈levels / phases⌉: cycles of the clock from the first level to the last; None for a model without phases."""
        return None if self.phases is None else max(1, math.ceil(levels / self.phases.si.nominal))

    @property
    def by_activity(self) -> bool:
        """Whether a charge depends on how often cells switch."""
        return any("activity" in charge.figures for charge in self.charges)

    @property
    def open(self) -> dict[str, Figure]:
        """Figures that it leaves open, by name."""
        return {name: charge.figures[name] for charge in self.charges for name in charge.open}

    def below_bounds(self, kelvins: float) -> Iterator[tuple[int, str, str]]:
        """(index of the charge, name of the figure, message) of each figure below a physical bound at a temperature.

        Erasing a bit dissipates at least kT ln 2 (Landauer). Moving heat Q from T to T₀ takes at least Q·(T₀ − T)/T (Carnot).
        The least value of a figure counts.
        """
        everywhere = [*enumerate(self.charges)]
        garbage = [i for i, charge in everywhere if charge.law.name == "garbage"]
        for of_bits in ([i for i, charge in everywhere if charge.law.of_bits], garbage):
            if not of_bits or any(self.charges[i].open for i in of_bits):
                continue
            each, least = sum(self.charges[i].of_a_bit(kelvins).lo for i in of_bits), thermal_energy(kelvins)
            if each < least * (1 - _ROUNDING):
                spent, bound = with_prefix(each, "J", 6), with_prefix(least, "J", 6)
                message = f"erasing a bit takes {spent}, less than kT ln 2 at {kelvins:g} K, {bound}"
                yield of_bits[0], next(iter(self.charges[of_bits[0]].figures)), message
        for i, charge in everywhere:
            floor = charge.figures.get("floor")
            if floor is not None and floor.written and floor.at(kelvins).lo < thermal_energy(kelvins) * (1 - _ROUNDING):
                message = (
                    f"a lost bit takes {with_prefix(floor.at(kelvins).lo, 'J', 6)}, less than kT ln 2 at {kelvins:g} K"
                )
                yield i, "floor", message
            if charge.law.name == "cooling" and self.ambient is not None and not charge.open:
                outside, overhead = self.ambient.si.nominal, charge.figures["overhead"].si.lo
                least = (outside - kelvins) / kelvins
                if overhead < least * (1 - _ROUNDING):
                    message = f"cooling takes {overhead:g} W/W, less than Carnot's ({outside:g} K − {kelvins:g} K) / {kelvins:g} K = {least:.6g}"
                    yield i, "overhead", message

    def with_figures(self, given: Mapping[str, Range]) -> Technology:
        """The model with figures that it left open, in their SI units; evidence: given. Raises InputError RG1109."""
        left = {name: figure for charge in self.charges for name, figure in charge.figures.items()}
        for name, value in given.items():
            shown = f"`{name:.40}` = {value.lo:g}:{value.nominal:g}:{value.hi:g}"
            if not 0 <= value.lo <= value.nominal <= value.hi < math.inf:
                raise InputError(Diagnostic("RG0507", f"{shown} is no range of a figure"))
            if name not in left:
                hint = nearest(name, left) or (f"its figures: {', '.join(left)}" if left else "it has none to be given")
                raise InputError(Diagnostic("RG1109", f"`{self.id}` has no figure `{name:.40}`", hint=hint))
            measures = left[name].unit.measures
            least, most = limits(name, measures)
            if not least <= value.lo <= value.hi <= most:
                unit = SI[measures].name
                raise InputError(Diagnostic("RG0507", f"{shown} {unit}: it may be from {least:g} to {most:g} {unit}"))

        def changed(charge: Charge) -> Charge:
            figures = dict(charge.figures)
            for name, value in given.items():
                if name in figures:
                    unit = SI[figures[name].unit.measures]
                    figures[name] = Figure(name, unit, value, "given for this price", "given")
            return replace(charge, figures=figures)

        return replace(self, charges=tuple(map(changed, self.charges)))

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the model, and every figure with its source. Models with different prices differ in it."""
        return {
            "id": self.id, "version": self.version, "title": self.title, "temperature": self.temperature.as_dict(),
            "frequency": None if self.frequency is None else self.frequency.as_dict(),
            "ambient": None if self.ambient is None else self.ambient.as_dict(),
            "phases": None if self.phases is None else self.phases.as_dict(),
            "covered": list(self.covered),
            "charges": [
                {
                    "cause": charge.cause, "label": charge.label, "law": charge.law.name, "unit": charge.unit,
                    "figures": [
                        *(figure.as_dict() for figure in charge.figures.values()),
                        *(size.as_dict() for size in charge.sizes),
                        *({**figure.as_dict(), "cell": kind} for kind, figure in (charge.cells or {}).items()),
                        *({**figure.as_dict(), "levels_of": kind} for kind, figure in charge.levels.items()),
                    ],
                }
                for charge in self.charges
            ],
        }  # fmt: skip
