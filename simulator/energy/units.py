"""Units of figures: `0.1 pJ` in a file is a number of joules in the program.

A unit is a base unit with a prefix. `kT ln2` is an energy too; its joules depend on the temperature.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from retrograd.isa.diagnostics import Diagnostic, InputError, nearest

#: J/K, exact (SI 2019)
BOLTZMANN = 1.380649e-23
#: the unit of energy that depends on the temperature
THERMAL = "kT ln2"

_PREFIXES = {
    "": 1.0, "z": 1e-21, "a": 1e-18, "f": 1e-15, "p": 1e-12, "n": 1e-9, "µ": 1e-6, "u": 1e-6, "m": 1e-3,
    "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
}  # fmt: skip
#: unit -> (quantity, factor to the SI unit); these take a prefix
_BASES = {
    "J": ("energy", 1.0),
    "eV": ("energy", 1.602176634e-19),  # exact (SI 2019)
    "J s": ("action", 1.0),
    "s": ("time", 1.0),
    "Hz": ("frequency", 1.0),
    "F": ("capacitance", 1.0),
    "ohm": ("resistance", 1.0),
    "Ω": ("resistance", 1.0),
    "V": ("voltage", 1.0),
    "W": ("power", 1.0),
    "K": ("temperature", 1.0),
}
#: units without a prefix
_PLAIN = {
    "1": ("number", 1.0),
    "W/W": ("ratio of powers", 1.0),
    "B": ("memory", 1.0),
    "KiB": ("memory", 1024.0),
    "MiB": ("memory", 1024.0**2),
    "GiB": ("memory", 1024.0**3),
    THERMAL: ("energy", 1.0),
}


class PhysicalUnit(NamedTuple):
    """A unit: its quantity and its factor to the SI unit. The factor of `kT ln2` counts multiples of kT ln 2."""

    name: str
    measures: str
    factor: float

    @property
    def thermal(self) -> bool:
        """Whether its joules depend on the temperature."""
        return self.name == THERMAL


def _units() -> dict[str, PhysicalUnit]:
    out = {name: PhysicalUnit(name, *found) for name, found in _PLAIN.items()}
    for base, (measures, factor) in _BASES.items():
        for prefix, by in _PREFIXES.items():
            out[prefix + base] = PhysicalUnit(prefix + base, measures, by * factor)
    return out


#: name -> unit
UNITS = _units()


#: quantity -> its SI unit
SI = {unit.measures: unit for unit in UNITS.values() if unit.factor == 1.0 and not unit.thermal and unit.name != "Ω"}

#: quantity -> examples of its units, for hints
_EXAMPLES = {
    "energy": "pJ, zJ, eV, kT ln2", "action": "J s, zJ s", "time": "s, ns", "frequency": "Hz, MHz, GHz", "capacitance": "pF, fF, aF",
    "resistance": "ohm, kohm, Mohm", "voltage": "V, mV", "power": "W, nW, fW", "temperature": "K, mK", "number": "1",
    "ratio of powers": "W/W", "memory": "B, KiB, MiB",
}  # fmt: skip

#: syntax of quantities
_WRITTEN = {
    "energy": "1.4zJ", "action": "1zJ s", "frequency": "5GHz", "capacitance": "1fF", "resistance": "10kohm", "voltage": "0.8V", "power": "1fW",
    "temperature": "4.2K", "number": "2", "ratio of powers": "400",
}  # fmt: skip


def units_of(measures: str) -> str:
    """A hint with units of the expected quantity."""
    return f"units of {measures}: {_EXAMPLES[measures]}"


def thermal_energy(temperature: float) -> float:
    """kT ln 2 in joules: the least heat of erasing one bit (R. Landauer, 1961)."""
    return BOLTZMANN * temperature * math.log(2)


def with_prefix(value: float, unit: str, digits: int = 4) -> str:
    """A number with the prefix that gives one to three places before the point: 2.5e-11, "J" is 25 pJ."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    power = math.floor(math.log10(abs(value)) / 3) * 3
    power = min(max(power, -24), 12)
    shown = value / 10.0**power
    if abs(float(f"{shown:.{digits}g}")) >= 1000 and power < 12:
        power, shown = power + 3, shown / 1000
    names = {-24: "y", 0: "", **{round(math.log10(by)): p for p, by in _PREFIXES.items() if p != "u"}}
    return f"{shown:.{digits}g} {names[power]}{unit}"


_NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_QUANTITY = re.compile(rf"\s*({_NUMBER}(?::{_NUMBER})*)\s*([A-Za-zµΩ][\w /Ωµ]*)?\s*")


def quantity(text: str, measures: str, what: str) -> tuple[float, float, float]:
    """(lo, nominal, hi) in SI units of a text: `10 kohm`, `4.2K`, `8:10:12kohm`, or, in SI units, `300`.

    Raises InputError RG0507 if it is no number, RG1105 for a unit of another quantity.
    """
    found = _QUANTITY.fullmatch(text)
    parts = found[1].split(":") if found else []
    try:
        numbers = [float(part) for part in parts]
        if len(numbers) not in (1, 3) or not all(math.isfinite(x) and x >= 0 for x in numbers):
            raise ValueError
    except ValueError:
        hint = f"For example {_WRITTEN.get(measures, '10kohm')}."
        if what not in ("temperature", "frequency"):
            hint += " A range is low:likely:high, with one unit."
        raise InputError(Diagnostic("RG0507", f"{what}: `{text:.40}` is no {measures}", hint=hint)) from None
    assert found is not None
    factor = 1.0
    if found[2] is not None:
        unit = UNITS.get(found[2].strip())
        fitting = [name for name, u in UNITS.items() if u.measures == measures]
        if unit is None or unit.measures != measures or unit.thermal:
            hint = nearest(found[2], fitting) or units_of(measures)
            raise InputError(Diagnostic("RG1105", f"{what}: `{found[2]:.40}` is no unit of {measures}", hint=hint))
        factor = unit.factor
    lo, nominal, hi = numbers if len(numbers) == 3 else numbers * 3
    if not lo <= nominal <= hi or math.isinf(hi * factor):
        raise InputError(Diagnostic("RG0507", f"{what}: {lo:g}:{nominal:g}:{hi:g} is no range"))
    return lo * factor, nominal * factor, hi * factor
