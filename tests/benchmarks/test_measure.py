"""Timing and memory: what is counted, in which order, and what is put back."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from retrograd.benchmarks.measure import Row, one_core, peak_bytes, seconds, timed


def test_tasks_are_taken_in_turn() -> None:
    order: list[str] = []
    found = seconds({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 3)
    assert order == ["a", "b"] * 3
    assert all(0 <= spent.minimum <= spent.median for spent in found.values())


def test_short_tasks_fill_a_spell_and_are_told_each() -> None:
    calls = {"short": 0, "long": 0}

    def short() -> None:
        calls["short"] += 1

    def long() -> None:
        calls["long"] += 1
        time.sleep(0.004)

    found = timed({"short": short, "long": long}, 2, spell=2e-3)
    assert calls["long"] == 2 + 2  # before, and in each repeat
    assert calls["short"] > 100
    assert found["short"].median < 1e-4
    assert found["long"].minimum >= 0.004


def test_what_takes_too_long_is_not_repeated() -> None:
    calls = 0

    def long() -> None:
        nonlocal calls
        calls += 1
        time.sleep(0.003)

    found = timed({"long": long}, 50, budget=0.02)
    assert calls == 2
    assert found["long"].median == found["long"].minimum >= 0.003


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not tell a process's cores")
def test_one_core_and_back() -> None:
    before, threads = os.sched_getaffinity(0), os.environ.get("OMP_NUM_THREADS")
    with one_core() as core:
        assert os.sched_getaffinity(0) == {core}
        assert os.environ["OMP_NUM_THREADS"] == "1"
    assert os.sched_getaffinity(0) == before
    assert os.environ.get("OMP_NUM_THREADS") == threads


def test_peak_memory() -> None:
    small = peak_bytes(lambda: None)
    if small is None:
        pytest.skip("this system does not tell the largest size of a process")
    large = peak_bytes(lambda: np.ones(1 << 23).sum())
    assert large is not None
    assert small < 8 << 20 < 48 << 20 < large


@pytest.mark.parametrize(
    ("value", "lower", "met"), [(1.0, True, True), (3.0, True, False), (3.0, False, True), (1.0, False, False)]
)
def test_bars_of_rows(value: float, lower: bool, met: bool) -> None:
    assert Row("", value, "", 2.0, lower).met is met
    assert Row("", value, "").met is None
