"""Figures with ranges and with their provenance.

    (lo, nominal, hi) + (lo, nominal, hi),   · (lo, nominal, hi):   end by end

All figures are positive and all prices grow with them, so the ends of a price come from the ends of its figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from retrograd.simulator.energy.units import PhysicalUnit, thermal_energy

#: how good a figure is, the best first
EVIDENCE = ("measured", "simulated", "estimated", "claimed", "assumed", "given")


class Range(NamedTuple):
    """A positive quantity: at least, most likely, at most."""

    lo: float
    nominal: float
    hi: float

    def __add__(self, other: object) -> Range:  # a sum, not a longer tuple
        if not isinstance(other, Range):
            return NotImplemented
        return Range(*(x + y for x, y in zip(self, other, strict=True)))

    def __mul__(self, other: object) -> Range:  # a product, not a repetition
        if isinstance(other, Range):
            return Range(*(x * y for x, y in zip(self, other, strict=True)))
        if isinstance(other, int | float):
            return Range(*(x * other for x in self))
        return NotImplemented

    def __truediv__(self, divisor: float) -> Range:
        return Range(*(x / divisor for x in self))

    def by(self, f: Callable[..., float], *others: Range) -> Range:
        """f at the three points, where f grows with all that it is given."""
        return Range(*(f(*at) for at in zip(self, *others, strict=True)))

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return {"low": self.lo, "value": self.nominal, "high": self.hi}


ZERO: Final = Range(0.0, 0.0, 0.0)


def exactly(value: float) -> Range:
    """A quantity without uncertainty."""
    return Range(value, value, value)


@dataclass(frozen=True)
class Figure:
    """A figure of a technology file, as written: in its unit, with where it comes from."""

    name: str
    unit: PhysicalUnit
    #: None: left open, for whoever prices to give
    written: Range | None
    source: str
    evidence: str

    def at(self, temperature: float) -> Range:
        """In SI units, at this temperature. Trap: not of a figure that was left open."""
        assert self.written is not None, self.name
        factor = thermal_energy(temperature) if self.unit.thermal else self.unit.factor
        return self.written * factor

    @property
    def si(self) -> Range:
        """In SI units, of a figure that no temperature changes."""
        assert not self.unit.thermal, self.name
        return self.at(0.0)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: as written."""
        written = {"value": None} if self.written is None else self.written.as_dict()
        return {"name": self.name, **written, "unit": self.unit.name, "source": self.source, "evidence": self.evidence}
