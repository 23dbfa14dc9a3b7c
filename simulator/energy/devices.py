"""Energies of devices: one of them in a cycle of the clock, and all cells of a netlist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from retrograd.simulator.energy.figures import ZERO, Range, exactly
from retrograd.simulator.energy.gates import MEMORY_BITS, Gates, lost_bits
from retrograd.simulator.energy.laws import ramp_energy
from retrograd.simulator.energy.technology import Charge
from retrograd.simulator.energy.units import thermal_energy


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
        case "ramp" | "gate ramp":

            def ramp(r: float, c: float, v: float, ticks: float) -> float:
                return ramp_energy(r, c, v, 1 / (hertz * ticks))

            return f["resistance"].si.by(ramp, f["capacitance"].si, f["voltage"].si, f["ticks"].si) * f["ramps"].si
        case "leakage" | "hold":
            return f["power"].si * (1 / hertz)
        case name:
            raise AssertionError(name)


def priced_cells(charge: Charge, cells: Mapping[str, int], kelvins: float, hertz: float) -> PricedCells:
    """All cells once. However slow the clock, no gate costs less than the floor of its law for each bit that it loses: kT ln 2 or more."""
    assert charge.cells is not None
    each = device_energy(charge, kelvins, hertz)
    floor = _of_a_lost_bit(charge, kelvins)
    devices, bounded, known = ZERO, ZERO, 0
    unknown: dict[str, int] = {}
    for kind, n in cells.items():
        figure = charge.cells.get(kind, None if kind == MEMORY_BITS else charge.cells.get("any"))
        if figure is None:
            unknown[kind] = n
            continue
        known += n
        least = floor * (0.0 if charge.law.name == "leakage" else lost_bits(kind))
        costs = figure.si * each
        if all(cost >= bound for cost, bound in zip(costs, least, strict=True)):
            devices += figure.si * n
        else:
            bounded += costs.by(max, least) * n
    return PricedCells(devices * each + bounded, known, unknown)


def switched_cells(charge: Charge, gates: Gates, kelvins: float, measured: bool) -> PricedCells:
    """All cells in one cycle, by the rises of each: as `measured` for each unit and kind, or as the model assumes."""
    assert charge.cells is not None
    f, least = charge.figures, exactly(thermal_energy(kelvins))
    each = f["capacitance"].si * f["voltage"].si * f["voltage"].si
    named, energy, known = frozenset(gates.units), ZERO, 0
    unknown: dict[str, int] = {}
    for unit, kinds in gates.units.items():
        for kind, n in kinds.items():
            figure = charge.cells.get(kind, None if kind == MEMORY_BITS else charge.cells.get("any"))
            if figure is None:
                unknown[kind] = unknown.get(kind, 0) + n
                continue
            known += n
            rises = f["activity"].si
            if measured and gates.activity is not None:
                rises = exactly(gates.activity.rises(unit, kind, named))
            energy += (figure.si * rises * each).by(max, least * lost_bits(kind)) * n
    return PricedCells(energy, known, unknown)


def _of_a_lost_bit(charge: Charge, kelvins: float) -> Range:
    """The least energy of a bit that a gate loses: a figure, the charge that is dropped where no ramp takes it back, or kT ln 2."""
    f, bound = charge.figures, exactly(thermal_energy(kelvins))
    if "floor" in f:
        return f["floor"].at(kelvins)
    if "dropped" in f:
        return (f["capacitance"].si * f["voltage"].si * f["voltage"].si * f["dropped"].si).by(max, bound)
    return bound
