"""Every machine, on programs with constant factors: the words of the reference machine, there and back.

The machine is a fixture. Under Numba's CUDA simulator they run in simulator/engines/cuda/simulated/test_single_runs.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from retrograd.simulator.engines.llvm.jit import jit_compiler
from support.constant_factors import PROGRAMS, words_of_batch

import retrograd as rg
from retrograd.hardware import run_on_hardware

pytestmark = pytest.mark.filterwarnings("ignore::retrograd.PrecisionWarning")


def in_lanes(name: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(jit_compiler(), "lanes", 8)
    for cost, value in (("lanes", 0.0), ("wait", math.inf)):
        monkeypatch.setattr(f"retrograd.simulator.engines.tiering.policy.costs.{cost}", value)
    return words_of_batch(name)


@pytest.fixture(params=["threaded", "translated", "lanes"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Any]]:
    """The machine under test: its words there and back."""
    if request.param == "lanes":
        return partial(in_lanes, monkeypatch=monkeypatch)
    return partial(words_of_batch, engine=request.param)


@pytest.mark.parametrize("name", PROGRAMS)
def test_words_are_those_of_the_reference_machine(machine: Callable[[str], list[Any]], name: str) -> None:
    found = machine(name)
    assert found == words_of_batch(name, engine="reference")
    assert found[0] != found[1]


@pytest.mark.parametrize("core", ["small", pytest.param("fast", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_coprocessor_has_them_too(name: str, core: str) -> None:
    """The last row, there and back, simulated."""
    f, columns = PROGRAMS[name]
    row = [column[-1] for column in columns]
    for way in (f, ~f):
        found, expected = run_on_hardware(way, *row, core=core), rg.run(way, *row, engine="reference")
        assert all(np.array_equal(x, y) for x, y in zip(found.values, expected.values, strict=True))
        row = [*found.values]
