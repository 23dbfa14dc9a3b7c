"""Counts priced at many points: curves over the clock, the cheapest clock, sensitivities of a price."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from retrograd.simulator.energy.counting import Counts
from retrograd.simulator.energy.figures import Range
from retrograd.simulator.energy.gates import Gates
from retrograd.simulator.energy.pricing import NotModelled, price
from retrograd.simulator.energy.technology import Technology

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
    """Prices at clocks evenly spaced in the logarithm, over the model's range; none if it has no clock."""
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
