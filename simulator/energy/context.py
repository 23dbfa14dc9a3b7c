"""Pricing contexts: the technology model, temperature, clock and gate counts by which a run is priced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.words import Format
from retrograd.simulator.energy.counting import Counts
from retrograd.simulator.energy.figures import Range
from retrograd.simulator.energy.gates import Activity, Gates, activity_from, load_activity, load_gates
from retrograd.simulator.energy.loading import technology
from retrograd.simulator.energy.pricing import Price, price
from retrograd.simulator.energy.technology import Technology
from retrograd.simulator.energy.units import quantity

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
        """Cycles of the clock in a cycle of the core: several where a signal passes some levels in each."""
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
    """The context from the notation of users; of netlists without a format, which need no gate counts. Raises InputError RG0507, RG1101 to RG1110, RG1114."""
    model = tech if isinstance(tech, Technology) else technology(tech)
    if figures:
        known = {name: figure for charge in model.charges for name, figure in charge.figures.items()}
        given = {}
        for name, value in figures.items():
            measures = known[name].unit.measures if name in known else ""
            if isinstance(value, tuple):
                given[name] = _range(name, value)
            else:
                given[name] = Range(*quantity(str(value), measures, name)) if measures else Range(0, 0, 0)
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
