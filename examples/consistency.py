"""Learning by consistency: finding a parameter by going out and back, without a derivative.

    y += e^(p + x) − e^x

Wanted is the p for which x = 0.3 gives y = 1. A reversible function can be run backward from an answer that it never
gave: put the y that is wanted in the place of the y that came out, run backward, put the known x back, run forward again.
If the answer wanted is consistent with the rest of the output, nothing changes any more, and p is found.
`rg.learn_by_consistency` does so.

Whether that works depends on what the rest of the output knows. `keeping` leaves x where it is: x and p + x together
determine p, so that going back always returns the p one came with, and y stays wrong for ever. `clearing` takes x away by
what y knows of it, x −= ln(e^x): it leaves (almost) zero, and going back must ask y for x. Each round then moves p.

After Jin-Guo Liu and Taine Zhao, "Differentiate everything with a reversible embedded domain-specific language" (NiLang).
"""

from __future__ import annotations

import math
from typing import Any

import retrograd as rg
from retrograd import fixed, reversible

TARGET = 1.0
KNOWN = 0.3
#: e^(p + 0.3) − e^0.3 = 1
SOLUTION = math.log(1 + math.exp(KNOWN)) - KNOWN


@reversible
def keeping(y: fixed, x: fixed, p: fixed) -> None:
    """(y, x, p) := (y + e^(p + x) − e^x, x, p + x). Inverse: uncall."""
    p += x
    y -= rg.exp(x)
    y += rg.exp(p)


@reversible
def clearing(y: fixed, x: fixed, p: fixed) -> None:
    """(y, x, p) := (y + e^(p + x) − e^x, x − ln(e^x − y), p + x): from y = 0, x becomes zero but for rounding.

    Inverse: uncall. Trap: y ≥ e^x, backward y ≥ e^p, whose logarithm there is none.
    """
    p += x
    y -= rg.exp(x)
    x -= rg.log(-y)
    y += rg.exp(p)


def learn(f: Any, p: float = 1.6, rounds: int = 100) -> rg.Consistency:
    """Out with x = 0.3, back with y = 1, until nothing new comes or `rounds` are over."""
    return rg.learn_by_consistency(f, (0.0, KNOWN, p), outputs={"y": TARGET}, parameters="p", steps=rounds)


def train(f: Any, p: float = 1.6, rounds: int = 100) -> list[float]:
    """The answers y of the rounds; the last entry is p."""
    learnt = learn(f, p, rounds)
    return [*learnt.history["y"].tolist(), learnt.arguments.p]


def reference(y: float, x: float, p: float) -> float:
    """The y that comes out, in floating point."""
    return y + math.exp(p + x) - math.exp(x)


def main() -> None:
    """Both functions, as far as they get."""
    print(f"wanted: y = {TARGET} at p = {SOLUTION:.13f}")
    for f in (keeping, clearing):
        learnt = learn(f)
        answers = [f"{y:.6f}" for y in learnt.history["y"]]
        shown = answers if len(answers) < 6 else [*answers[:4], "…", answers[-1]]
        verdict = "converged" if learnt.converged else "more rounds would change nothing"
        print(
            f"{f.__name__:8}: y = {', '.join(shown)}; p = {learnt.arguments.p:.9f}; rounds: {learnt.rounds}; {verdict}"
        )


if __name__ == "__main__":
    main()
