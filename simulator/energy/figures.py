"""Figures with ranges and provenance.

    (lo, nominal, hi) + (lo, nominal, hi),   · (lo, nominal, hi):   end by end

All figures are positive and all prices grow with them, so the ends of a price follow from the ends of its figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from retrograd.simulator.energy.units import PhysicalUnit, thermal_energy

#: kinds of evidence, the best first
EVIDENCE = ("measured", "simulated", "estimated", "claimed", "assumed", "given")


class Range(NamedTuple):
    """A positive quantity with its lowest, likely and highest value."""

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
        """f at the three points. Correct if f grows with all arguments."""
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
    """A figure of a technology file: in its unit, with its source."""

    name: str
    unit: PhysicalUnit
    #: None: left open; the user who prices gives it
    written: Range | None
    source: str
    evidence: str

    def at(self, temperature: float) -> Range:
        """The range in SI units at this temperature. Trap: an open figure has none."""
        assert self.written is not None, self.name
        factor = thermal_energy(temperature) if self.unit.thermal else self.unit.factor
        return self.written * factor

    @property
    def si(self) -> Range:
        """The range in SI units of a figure that does not depend on the temperature."""
        assert not self.unit.thermal, self.name
        return self.at(0.0)

    def as_dict(self) -> dict[str, Any]:
        """The figure for JSON, in its own unit."""
        written = {"value": None} if self.written is None else self.written.as_dict()
        return {"name": self.name, **written, "unit": self.unit.name, "source": self.source, "evidence": self.evidence}
