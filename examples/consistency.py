"""Learning by consistency: finding a parameter by running forward and back, without a derivative.

    y += e^(p + x) − e^x

The task is to find the p for which x = 0.3 gives y = 1. A reversible function can be run backward from any result: replace
y by the target, run backward, replace x by its known value, run forward again. When the target is consistent with the
other outputs, a round changes nothing, and p is found. `rg.learn_by_consistency` does this.

The method works only if the other outputs do not determine p. `keeping` returns x and p + x. These determine p, so a
run backward always returns the old p, and y stays wrong. `clearing` subtracts ln(e^x − y) from x, which leaves (almost)
zero, so a run backward computes x from y. Each round then moves p.

After Jin-Guo Liu and Taine Zhao, "Differentiate everything with a reversible embedded domain-specific language"
(NiLang).
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

    Inverse: uncall. Trap: y ≥ e^x, backward y ≥ e^p, which have no logarithm.
    """
    p += x
    y -= rg.exp(x)
    x -= rg.log(-y)
    y += rg.exp(p)


def learn(f: Any, p: float = 1.6, rounds: int = 100) -> rg.Consistency:
    """Run forward with x = 0.3 and back with y = 1, until a state repeats or `rounds` have passed."""
    return rg.learn_by_consistency(f, (0.0, KNOWN, p), outputs={"y": TARGET}, parameters="p", steps=rounds)


def train(f: Any, p: float = 1.6, rounds: int = 100) -> list[float]:
    """The results y of the rounds; the last entry is p."""
    learnt = learn(f, p, rounds)
    return [*learnt.history["y"].tolist(), learnt.arguments.p]


def reference(y: float, x: float, p: float) -> float:
    """The resulting y, in floating point."""
    return y + math.exp(p + x) - math.exp(x)


def main() -> None:
    """Print the rounds of both functions."""
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
