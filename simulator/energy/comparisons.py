"""Ratios and differences of two energies, with correlated ranges.

    range of E₁ / E₂ = the least and the greatest E₁(x) / E₂(x),      x: a value of each figure within its range, the same in both energies

Both runs of a core have the same overhead of an instruction, so its range cancels for the most part: a quotient of
the ends of two ranges would be far too wide.
Two figures are the same figure where their name, range, unit, source and evidence are equal, in one model or in two.

An energy that is linear in each of its figures has a quotient, and a difference, that is monotonic in each of them.
The extremes are then at ends of
ranges, and changing one figure after the other finds them. Exponents and clocks are not linear: their middle is
tried, too.

A quotient of incomplete sums is bounded on one side, or on none: E₁ ≥ a and E₂ = b give E₁/E₂ ≥ a/b, E₂ ≥ b gives ≤,
and both give no bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from retrograd.simulator.energy.pricing import NotModelled, Price
from retrograd.simulator.energy.technology import Figure, Range, Size, Technology, exactly, with_prefix

#: rounds in which every figure is changed, at most
_ROUNDS = 8


class Priced(NamedTuple):
    """Something that has a price by each model: by one model, the same counts with other figures."""

    technology: Technology
    price: Callable[[Technology], Price]
    #: with cooling and host
    whole: bool = False

    def energy(self, technology: Technology) -> Range | NotModelled:
        """The energy by a model."""
        price = self.price(technology)
        return price.total if self.whole else price.program

    @property
    def complete(self) -> bool:
        """Whether nothing is missing in the energy."""
        return self.price(self.technology).complete(program=not self.whole)


@dataclass(frozen=True)
class Comparison:
    """A ratio or a difference of two energies."""

    range: Range | NotModelled
    #: empty, or `≥` or `≤` where a part of one energy has no figure, or `no bound` where both lack parts
    bound: str = ""
    #: of a difference: J
    unit: str = ""

    def __str__(self) -> str:
        if isinstance(self.range, NotModelled):
            return str(self.range)
        lo, nominal, hi = (
            with_prefix(x, self.unit) if self.unit else "∞" if math.isinf(x) else f"{x:.3g}" for x in self.range
        )
        if lo == "∞":
            return "∞: the divisor is 0 J"
        text = nominal if lo == nominal == hi else f"{nominal} ({lo} … {hi})"
        return f"{text}, no bound" if self.bound == "no bound" else f"{self.bound} {text}".strip()

    def as_dict(self) -> dict[str, Any]:
        """For JSON. An infinite end, of a ratio to 0 J, is null."""
        ends = self.range.as_dict() if isinstance(self.range, Range) else {}
        return {
            "range": {k: x if math.isfinite(x) else None for k, x in ends.items()} or str(self.range),
            "bound": self.bound or None,
        }


def ratio(one: Priced, other: Priced) -> Comparison:
    """E₁ / E₂."""
    return _compared(one, other, lambda a, b: a / b if b else float("inf") if a else 1.0, "")


def difference(one: Priced, other: Priced) -> Comparison:
    """E₁ − E₂, in joules."""
    return _compared(one, other, lambda a, b: a - b, "J")


def uncertain(models: Iterable[Technology]) -> list[Figure]:
    """The figures of these models that have a range, each once."""
    found = (figure for model in models for charge in model.charges for figure in charge.all_figures())
    return [*dict.fromkeys(f for f in found if f.written is not None and f.written.lo < f.written.hi)]


def at(model: Technology, values: Mapping[Figure, float]) -> Technology:
    """The model with these figures at a value, in their own units; all others at their likely value."""

    def fixed(figure: Figure) -> Figure:
        return (
            figure
            if figure.written is None
            else replace(figure, written=exactly(values.get(figure, figure.written.nominal)))
        )

    def of(size: Size) -> Size:
        return replace(size, energy=fixed(size.energy))

    charges = tuple(
        replace(
            charge, figures={name: fixed(f) for name, f in charge.figures.items()}, sizes=tuple(map(of, charge.sizes)),
            cells=None if charge.cells is None else {kind: fixed(f) for kind, f in charge.cells.items()},
        )
        for charge in model.charges
    )  # fmt: skip
    return replace(model, charges=charges)


def _compared(one: Priced, other: Priced, f: Callable[[float, float], float], unit: str) -> Comparison:
    lacking = next((e for e in (p.energy(p.technology) for p in (one, other)) if isinstance(e, NotModelled)), None)
    if lacking is not None:
        return Comparison(lacking, unit=unit)

    def value(values: Mapping[Figure, float]) -> float:
        energies = [p.energy(at(p.technology, values)) for p in (one, other)]
        # A sum of nothing but parts that are 0 at one end of their range is 0 there.
        return f(*(e.nominal if isinstance(e, Range) else 0.0 for e in energies))

    figures = uncertain([one.technology, other.technology])
    least, most = -_extreme(lambda values: -value(values), figures), _extreme(value, figures)
    bound = {(True, True): "", (False, True): "≥", (True, False): "≤", (False, False): "no bound"}
    return Comparison(Range(least, value({}), most), bound[one.complete, other.complete], unit)


def _extreme(f: Callable[[Mapping[Figure, float]], float], figures: list[Figure]) -> float:
    """The greatest value of f, which is monotonic in each figure, by changes of one figure at a time."""
    values: dict[Figure, float] = {}
    best = f(values)
    for _ in range(_ROUNDS):
        before, moving = best, []
        for figure in figures:
            assert figure.written is not None
            here, moved = values.get(figure, figure.written.nominal), False
            for end in figure.written:
                found = best if end == here else f({**values, figure: end})
                moved |= found != best
                if found > best:
                    best, values, here = found, {**values, figure: end}, end
            moving += [figure] * moved
        if best <= before:
            break
        # A figure without an influence has none in later rounds.
        figures = moving
    return best
