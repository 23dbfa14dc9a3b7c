"""Fixtures for tests of engines: the tiers, with and without transformations."""

from __future__ import annotations

import pytest
from retrograd.simulator.engines.translator import flow
from support.machines import MAKERS, Make

LONG = pytest.mark.long
#: ways in which tests of vector loops run
WITH_VECTOR_LOOPS = ("skipped", pytest.param("executed", marks=LONG))


def set_transformations(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`executed`: uncompute blocks are executed; `scalar`: loops do not run in the vector unit."""
    if way == "scalar":
        monkeypatch.setattr(flow, "VECTOR_LOOPS", False)
    if way == "executed":
        for module in ("native", "machines", "batch.loops"):
            monkeypatch.setattr(f"retrograd.simulator.engines.{module}.ghosts_of", lambda program: None)


@pytest.fixture(params=[*WITH_VECTOR_LOOPS, pytest.param("scalar", marks=LONG)], autouse=True)
def transformations(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the full tier, every test also runs without the one transformation, and without the other."""
    set_transformations(request.param, monkeypatch)


@pytest.fixture(params=list(MAKERS))
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a machine of one of the tiers."""
    return MAKERS[request.param]


@pytest.fixture
def threaded() -> Make:
    return MAKERS["threaded"]


@pytest.fixture
def translated() -> Make:
    return MAKERS["translated"]
