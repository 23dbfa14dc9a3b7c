"""A workload that takes no time, peers that are right, wrong, broken and absent, and documents of runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from retrograd.benchmarks import ours
from retrograd.benchmarks.peers import Peer, Prepared
from retrograd.benchmarks.workload import Golden, Numbers, Problem, Sizes, Task, Workload
from retrograd.examples import quadratic

import retrograd as rg

Z = np.array([1.0, 2.0, 3.0])


def workload(golden: float = 118.0, exact: float = 0.0, **more: Any) -> Workload:
    """f(z, 4) = 2z² + 12z + 64 of three numbers; `golden` and `exact` can make it wrong."""
    call = ours.Call(quadratic.quadratic, (np.zeros(3), Z, 4.0), {"y": None})
    data = Numbers(Z)

    def problem(count: int) -> Problem:
        values, slopes = 2 * Z**2 + 12 * Z + 64 + exact, 4 * Z + 12
        return Problem(
            "three numbers", 3,
            (
                Task("value", data, values, 1e-8, lambda: ours.value(call, "out"), absolute=True),
                Task("gradient", data, slopes, 1e-8, lambda: ours.gradient(call, ["x"])),
            ),
            count,
        )  # fmt: skip

    return Workload(
        "quadratic", "a quadratic",
        lambda: [Golden("f(3, 4)", golden, 0, lambda: quadratic.quadratic(0.0, 3.0, 4.0).out)],
        lambda: (quadratic.quadratic, (0.0, 3.0, 4.0)),
        lambda sizes: [problem(3)], "numbers", lambda sizes: [problem(1), problem(2)],
        **more,
    )  # fmt: skip


PEERS: dict[str, Any] = {
    "right": {
        (Numbers, "value"): lambda d: Prepared(lambda: 2 * d.z**2 + 12 * d.z + 64, note="by NumPy"),
        (Numbers, "gradient"): lambda d: Prepared(lambda: 4 * d.z + 12),
    },
    "off": {
        (Numbers, "value"): lambda d: Prepared(lambda: (2 * d.z**2 + 12 * d.z + 64) * (1 + 1e-8)),
        (Numbers, "gradient"): lambda d: Prepared(lambda: np.array([np.nan, 0, 0])),
    },
    "broken": {(Numbers, "value"): lambda d: 1 / 0},
}


@pytest.fixture
def workloads() -> Callable[..., Workload]:
    """`workload`, for tests that need another."""
    return workload


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Peer]]:
    """Peers by name, as modules of their own; one whose name is `missing` is not installed."""

    def make(*names: str) -> list[Peer]:
        out = []
        for name in names:
            home = f"retrograd_tests_peer_{name}"
            if name in PEERS:
                module = ModuleType(home)
                module.TASKS = PEERS[name]  # type: ignore[attr-defined]
                monkeypatch.setitem(sys.modules, home, module)
            out.append(Peer(name, "json" if name in PEERS else "no_such_module_anywhere", "numpy", home))
        return out

    return make


@pytest.fixture
def document(peers: Callable[..., list[Peer]]) -> dict[str, Any]:
    """What a run of the workload with all these peers found."""
    from retrograd.benchmarks.run import run

    found: dict[str, Any] = run([workload()], peers("right", "off", "broken", "missing"), Sizes(quick=True))
    assert rg.__version__ == found["versions"]["retrograd"]
    return found
