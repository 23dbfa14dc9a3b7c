"""The bars: performance aims as ratios beside the best peers, and the measurements of the same run.

A missed bar is reported as missed. A bar that this run cannot measure (a peer is absent, or sizes are those of a quick run) is open.
Two aims of earlier versions are replaced, since no design of this kind reaches them: CasADi's Hessian of the graph is a symbolic
expression compiled by gcc, with the common parts of all 100 columns computed once; and 45 ns for the gradient of a Bessel function is
less than the time of its products and quotients in fixed point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from retrograd.benchmarks.toolchain import assembler, first_calls, wave

#: why a bar is open in a quick run
_SHORT = "sizes of a quick run"


@dataclass(frozen=True)
class Bar:
    """One bar. `measured` is None for an open bar; `reason` then gives the cause."""

    name: str
    limit: float
    unit: str
    measured: float | None
    reason: str = ""
    #: the measurement must reach the limit, and not stay below it
    at_least: bool = False

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "open"
        reached = self.measured >= self.limit if self.at_least else self.measured <= self.limit
        return "met" if reached else "missed"


def of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """All bars, with the measurements of the document."""
    found = [
        _beside(document, "BA Jacobian over Enzyme's", 1.5, "ba", "jacobian", "enzyme"),
        _beside(document, "graph gradient, k = 10, over Enzyme's", 2, "graph", "gradient", "enzyme"),
        _beside(document, "graph Hessian, k = 10, over JAX's", 1, "graph", "hessian", "jax"),
        _beside(document, "graph Hessian, k = 10, over Enzyme's forward over a gradient by hand", 3, "graph", "hessian", "enzyme"),
        _beside(document, "Bessel gradient over Enzyme's forward mode", 5, "bessel", "gradient", "enzyme"),
        _beside(document, "Gaussian mixture, gradient over JAX's", 6, "gmm", "gradient", "jax"),
        _beside(document, "Gaussian mixture, value over Numba's", 8, "gmm", "value", "numba"),
        _beside(document, "sparse product, gradient over Enzyme's", 1.5, "sparse-dot", "gradient", "enzyme"),
        _beside(document, "leapfrog gradient over JAX's", 1, "leapfrog", "gradient", "jax"),
        _beside(document, "wave gradient over JAX's with two levels of checkpoints", 2, "wave", "gradient", "jax-checkpoint"),
        _beside(document, "wave gradient, memory over JAX's scan", 0.1, "wave", "gradient", "jax", "peak_bytes"),
        _growth(document, "wave"),
        _part(document, wave.CORES, 1.7, "×", at_least=True),
        _part(document, wave.RETURNS, 0, "words"),
        _worst("values over Numba's, the worst workload", 8, _beside_each(document, "value", "numba")),
        _worst("instructions for each operation of the irreversible program, value, the worst workload", 3, _for_each_operation(document, ("value",))),
        _worst("instructions for each operation of the irreversible program, gradient, the worst workload", 9, _for_each_operation(document, ("gradient", "jacobian"))),
        _part(document, first_calls.AUTO, 1.3, "×"),
        _worst("uncall over call, the worst workload", 1.1, _backward(document)),
        _part(document, first_calls.BA, 0.5, "s"),
        _part(document, first_calls.GMM, 3.0, "s"),
        _part(document, assembler.DIFFERENT, 200_000, "lines/s", at_least=True),
    ]  # fmt: skip
    return [asdict(bar) | {"verdict": bar.verdict} for bar in found]


def task(document: dict[str, Any], workload: str, what: str) -> dict[str, Any] | None:
    """The task of a workload's first problem, if the run has it."""
    for w in document["workloads"]:
        if w["name"] == workload and w["problems"]:
            for found in w["problems"][0]["tasks"]:
                if found["what"] == what:
                    out: dict[str, Any] = found
                    return out
    return None


def figure(found: dict[str, Any] | None, system: str, of: str = "minimum") -> float | None:
    """A figure of a system on a task: least seconds of one evaluation, or `peak_bytes`; None if the system was not timed."""
    for s in found["systems"] if found is not None else ():
        if s["system"] == system and s["status"] == "timed":
            out: float | None = s[of]
            return out
    return None


def _beside(
    document: dict[str, Any], name: str, limit: float, workload: str, what: str, peer: str, of: str = "minimum"
) -> Bar:
    found = task(document, workload, what)
    if found is None:
        return Bar(name, limit, "×", None, f"{workload} was not run")
    if document["quick"]:
        return Bar(name, limit, "×", None, _SHORT)
    ours, theirs = figure(found, "translated", of), figure(found, peer, of)
    if ours is None or theirs is None:
        return Bar(name, limit, "×", None, f"{'ours' if ours is None else peer} was not measured in this run")
    return Bar(name, limit, "×", ours / theirs)


def _part(document: dict[str, Any], name: str, limit: float, unit: str, at_least: bool = False) -> Bar:
    """A bar on a row of the toolchain."""
    rows = [row["value"] for row in document["toolchain"] if row["name"] == name]
    if not rows or document["quick"]:
        reason = _SHORT if document["quick"] else "its part of the toolchain was not run"
        return Bar(name, limit, unit, None, reason, at_least)
    return Bar(name, limit, unit, rows[0], at_least=at_least)


def _worst(name: str, limit: float, ratios: Iterator[tuple[str, float]]) -> Bar:
    """A bar on the largest ratio of all workloads."""
    whose, worst = max(ratios, key=lambda one: one[1], default=("", None))
    return Bar(name, limit, "×", worst, whose or "no workload was measured")


def _of_each(document: dict[str, Any], what: str, measure: Callable[[dict[str, Any]], float | None]) -> Iterator[tuple[str, float]]:  # fmt: skip
    for w in document["workloads"]:
        found = task(document, w["name"], what)
        ratio = None if found is None else measure(found)
        if ratio is not None:
            yield w["name"], ratio


def _over(found: dict[str, Any], above: str, below: str) -> float | None:
    a, b = figure(found, above), figure(found, below)
    return a / b if a and b else None


def _beside_each(document: dict[str, Any], what: str, peer: str) -> Iterator[tuple[str, float]]:
    """Workloads in fixed point: the peer's program has no logarithms to compare with those of lognums."""
    ratios = _of_each(document, what, lambda found: _over(found, "translated", peer))
    return (one for one in ratios if "lognum" not in one[0])


def _backward(document: dict[str, Any]) -> Iterator[tuple[str, float]]:
    return _of_each(document, "value", lambda found: _over(found, "uncall", "translated"))


def _for_each_operation(document: dict[str, Any], which: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    for what in which:
        yield from _of_each(document, what, lambda found: found["per_operation"])


def _growth(document: dict[str, Any], workload: str) -> Bar:
    """Words of memory that a longer run takes in addition, from the shortest to the longest of the curve, for value and gradient."""
    name = f"words that more steps add, {workload}"
    for w in document["workloads"]:
        if w["name"] == workload and w["curve"]:
            by_task: dict[str, list[int]] = {}
            for point in w["curve"]["points"]:
                for what, found in point["tasks"].items():
                    by_task.setdefault(what, []).append(found["words"])
            return Bar(name, 0, "words", max(max(words) - min(words) for words in by_task.values()))
    return Bar(name, 0, "words", None, f"{workload} was not run")
