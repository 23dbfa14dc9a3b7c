"""Laws: energy as a function of counts. A technology file names the law of each charge, and gives its figures.

    erased bit       bits · energy
    dropped charge   bits · ½CV²
    instruction      instructions · energy
    operation        micro-operations of a unit · energy · (W / bits)^exponent
    access           accesses · energy · W / bits,      of the smallest memory that holds the data of the program
    hierarchy        Σ over memories: words · energy · W / bits,      words: all accesses in the first; in the next, those that miss it
    cell             cycles · cells · devices · energy · (f / at)^exponent, at least `floor` for each lost bit
    ramp             cycles · cells · nodes · ramps · E(R, C, V, τ),      τ = 1 / (f · ticks), at least `dropped` · CV² for each lost bit
    switching        cycles · cells · nodes · activity · CV², at least kT ln 2 for each lost bit
    leakage          cycles / f · cells · devices · power
    power clock      of each node with ramps: cycles · stored · CV² · 2π / quality,  or the energy of its ramps · (1 / efficiency − 1)
    gate             reversible gates · devices · energy · (f / at)^exponent
    gate ramp        reversible gates · nodes · ramps · E(R, C, V, τ)
    hold             lines held in a level / f · power,      of a reversible netlist
    garbage          bits of garbage · energy
    cooling          dissipation of the others at the operating temperature · overhead

An erasure in a time of 1/f costs `finite_time` · f more than a slow one. With `phases` in the model, a cycle above is ⌈levels / phases⌉ of
the clock. Every figure of a law is listed in `LAWS`, with the quantity that it measures, which determines its units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

#: the quantity of a figure, and whether it may be left out
Want = Literal[
    "energy", "number", "frequency", "resistance", "capacitance", "voltage", "power", "ratio of powers", "action"
]


@dataclass(frozen=True)
class Law:
    """The keys that a charge by this law must or may have."""

    name: str
    #: figure -> quantity
    figures: dict[str, Want]
    #: keys that are no figures: `unit`, the function unit; `sizes`, tables of figures by size; `cells`, cell -> number; `gates`, reversible
    #: gate -> number, and `levels`, reversible gate -> levels
    keys: frozenset[str] = frozenset()
    #: groups of figures that may be left out together
    optional: tuple[frozenset[str], ...] = ()
    #: whether its energy depends on the clock
    timed: bool = False
    #: whether it prices erased bits
    of_bits: bool = False

    @property
    def of_gates(self) -> bool:
        """Whether it prices the gates of reversible netlists."""
        return "gates" in self.keys

    @property
    def of_netlists(self) -> bool:
        """Whether it prices reversible netlists, and no programs."""
        return self.of_gates or self.name in ("garbage", "hold")


_ERASURE: dict[str, Want] = {"energy": "energy", "finite_time": "action"}
_SWITCHING: dict[str, Want] = {"energy": "energy", "at": "frequency", "exponent": "number"}
_RAMP: dict[str, Want] = {
    "resistance": "resistance", "capacitance": "capacitance", "voltage": "voltage", "ramps": "number", "ticks": "number",
}  # fmt: skip
#: kinds of reversible gates; `line` is a line through one level in which no gate acts on it. A gate of more controls is counted in Toffoli gates
REVERSIBLE = ("X", "CNOT", "Toffoli", "Fredkin", "swap", "Peres", "line")

LAWS: dict[str, Law] = {
    law.name: law
    for law in (
        Law("erased bit", _ERASURE, optional=(frozenset({"finite_time"}),), of_bits=True),
        Law("dropped charge", {"capacitance": "capacitance", "voltage": "voltage"}, of_bits=True),
        Law("instruction", {"energy": "energy"}),
        Law("operation", {"exponent": "number"}, frozenset({"unit", "sizes"})),
        Law("access", {}, frozenset({"sizes"})),
        Law("hierarchy", {}, frozenset({"sizes"})),
        Law(
            "cell", {**_SWITCHING, "floor": "energy"}, frozenset({"cells"}),
            optional=(frozenset({"at", "exponent"}), frozenset({"floor"})), timed=True,
        ),
        Law("ramp", {**_RAMP, "dropped": "number"}, frozenset({"cells"}), optional=(frozenset({"dropped"}),), timed=True),
        Law(
            "switching", {"capacitance": "capacitance", "voltage": "voltage", "activity": "number"}, frozenset({"cells"})
        ),
        Law(
            "power clock", {"quality": "number", "stored": "number", "efficiency": "number"},
            optional=(frozenset({"quality", "stored"}), frozenset({"efficiency"})),
        ),
        Law("leakage", {"power": "power"}, frozenset({"cells"}), timed=True),
        Law("gate", _SWITCHING, frozenset({"gates", "levels"}), optional=(frozenset({"at", "exponent"}),), timed=True),
        Law("gate ramp", _RAMP, frozenset({"gates", "levels"}), timed=True),
        Law("hold", {"power": "power"}, timed=True),
        Law("garbage", _ERASURE, optional=(frozenset({"finite_time"}),)),
        Law("cooling", {"overhead": "ratio of powers"}),
    )
}  # fmt: skip


#: quantity, or name of a figure -> limits in SI units, so that no price overflows or divides by zero
LIMITS: dict[str, tuple[float, float]] = {
    "energy": (0, 1e9), "number": (0, 1e6), "frequency": (1e-9, 1e18), "resistance": (0, 1e18), "capacitance": (0, 1e6),
    "voltage": (0, 1e9), "power": (0, 1e9), "temperature": (1e-9, 1e12), "ratio of powers": (0, 1e12), "action": (0, 1e9),
    "quality": (1e-3, 1e12), "stored": (0, 1), "efficiency": (1e-9, 1), "exponent": (0, 4), "dropped": (0, 1), "activity": (0, 100), "ticks": (1, 1e6), "phases": (1, 1e6),
}  # fmt: skip


def limits(name: str, measures: str) -> tuple[float, float]:
    """(least, most) of a figure, in SI units."""
    return LIMITS.get(name) or LIMITS[measures]


def ramp_energy(resistance: float, capacitance: float, voltage: float, duration: float) -> float:
    """Heat of charging C to V through R by one linear ramp: E = x(1 − x(1 − e^(−1/x)))·C·V², x = RC/τ.

    → (RC/τ)·CV² for slow ramps, ½CV² for fast ones; the dissipation while the charge settles after the ramp is
    included. Trap: for large x the formula cancels, so its series 1/2 − 1/6x + 1/24x² … is used; for x = 0 the result is 0.
    """
    x = resistance * capacitance / duration
    if not x:
        return 0.0
    if x > 1e3:
        share = 1 / 2 - 1 / (6 * x) + 1 / (24 * x * x)
    else:
        share = x * (1 + x * math.expm1(-1 / x))
    return share * capacitance * voltage * voltage


def optimum(rising: float, falling: float) -> tuple[float, float]:
    """(τ*, E(τ*)) of E(τ) = A/τ + Bτ, A = `rising` (with the clock), B = `falling`: τ* = √(A/B), E = 2√(AB)."""
    return math.sqrt(rising / falling), 2 * math.sqrt(rising * falling)
