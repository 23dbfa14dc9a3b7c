"""The bars: performance aims beside the best peers, and the measurements of the same run.

A missed bar is reported as missed. A bar that this run cannot measure (a peer is absent, or sizes are those of a quick run) is open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Bar:
    """One bar. `measured` is None for an open bar; `reason` then gives the cause."""

    name: str
    limit: float
    unit: str
    measured: float | None
    reason: str = ""

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "open"
        return "met" if self.measured <= self.limit else "missed"


def of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """All bars, with the measurements of the document."""
    found = [
        _beside(document, "BA Jacobian, over Enzyme's", "ba", "jacobian", "enzyme"),
        _beside(document, "graph embedding, gradient, k = 10, over Enzyme's", "graph", "gradient", "enzyme"),
        _beside(document, "graph embedding, Hessian, k = 10, over CasADi with gcc", "graph", "hessian", "casadi"),
        _time(document, "Bessel, gradient, each", "bessel", "gradient", 45e-9, "s"),
        _time(document, "sparse dot of 1000 × 1000, gradient", "sparse-dot", "gradient", 500e-6, "s", needs="1000 × 1000"),
        _ratio(document, "Gaussian mixture, gradient over value", "gmm", "gradient", "value", 1.7, needs="1k_d10_K25"),
        _uncall(document),
        _growth(document, "bessel"),
        _growth(document, "leapfrog"),
    ]  # fmt: skip
    return [asdict(bar) | {"verdict": bar.verdict} for bar in found]


def task(document: dict[str, Any], workload: str, what: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """(problem, task) of a workload's first problem, if the run has it."""
    for w in document["workloads"]:
        if w["name"] == workload and w["problems"]:
            problem = w["problems"][0]
            for found in problem["tasks"]:
                if found["what"] == what:
                    return problem, found
    return None


def least(found: dict[str, Any], system: str) -> float | None:
    """Seconds of a system for one evaluation of a task, if it was timed."""
    for s in found["systems"]:
        if s["system"] == system and s["status"] == "timed":
            minimum: float | None = s["minimum"]
            return minimum
    return None


def _need(document: dict[str, Any], workload: str, what: str, then: Callable[[dict[str, Any], dict[str, Any]], Bar], open_: Bar) -> Bar:  # fmt: skip
    found = task(document, workload, what)
    return open_ if found is None else then(*found)


def _beside(document: dict[str, Any], name: str, workload: str, what: str, peer: str) -> Bar:
    def measured(problem: dict[str, Any], found: dict[str, Any]) -> Bar:
        ours, theirs = least(found, "translated"), least(found, peer)
        if ours is None or theirs is None:
            return Bar(name, 1.0, "×", None, f"{peer if ours else 'ours'} was not timed in this run")
        return Bar(name, 1.0, "×", ours / theirs)

    return _need(document, workload, what, measured, Bar(name, 1.0, "×", None, f"{workload} was not run"))


def _time(
    document: dict[str, Any], name: str, workload: str, what: str, limit: float, unit: str, needs: str = ""
) -> Bar:
    def measured(problem: dict[str, Any], found: dict[str, Any]) -> Bar:
        if needs not in problem["size"]:
            return Bar(name, limit, unit, None, f"this run has {problem['size']}")
        return Bar(name, limit, unit, least(found, "translated"))

    return _need(document, workload, what, measured, Bar(name, limit, unit, None, f"{workload} was not run"))


def _ratio(
    document: dict[str, Any], name: str, workload: str, over: str, under: str, limit: float, needs: str = ""
) -> Bar:
    pair = [task(document, workload, what) for what in (over, under)]
    times = [None if found is None else least(found[1], "translated") for found in pair]
    above, below = times
    if pair[0] is not None and needs not in pair[0][0]["size"]:
        return Bar(name, limit, "×", None, f"this run has {pair[0][0]['size']}")
    if above is None or below is None:
        said = "was not run" if None in pair else "was not timed: see what is wrong"
        return Bar(name, limit, "×", None, f"{workload} {said}")
    return Bar(name, limit, "×", above / below)


def _uncall(document: dict[str, Any]) -> Bar:
    """The largest ratio, over all workloads, of running backward to running forward."""
    name, worst, whose = "uncall over call, the worst workload", None, ""
    for w in document["workloads"]:
        found = task(document, w["name"], "value")
        if found is None:
            continue
        forth, back = least(found[1], "translated"), least(found[1], "uncall")
        if forth and back and (worst is None or back / forth > worst):
            worst, whose = back / forth, w["name"]
    return Bar(name, 1.1, "×", worst, whose if worst is not None else "no workload was timed")


def _growth(document: dict[str, Any], workload: str) -> Bar:
    """Extra words of memory from the shortest to the longest loop of the curve, for value and gradient."""
    name = f"words that a longer loop adds, {workload}"
    for w in document["workloads"]:
        if w["name"] == workload and w["curve"]:
            by_task: dict[str, list[int]] = {}
            for point in w["curve"]["points"]:
                for what, found in point["tasks"].items():
                    by_task.setdefault(what, []).append(found["words"])
            return Bar(name, 0, "words", max(max(words) - min(words) for words in by_task.values()))
    return Bar(name, 0, "words", None, f"{workload} was not run")
