"""Timing and memory: what is counted, in which order, and what is put back."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

import pytest
from retrograd.benchmarks import measure
from retrograd.benchmarks.measure import Place, Row, one_core, optimised, peaks
from retrograd.simulator.engines import tiering


class Clock:
    """Time that passes only where a task says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def perf_counter(self) -> float:
        return self.now

    def task(self, name: str, *durations: float) -> Callable[[], None]:
        """Takes these times, one after the other, and then the last again and again."""
        left = list(durations)

        def run() -> None:
            self.calls.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(measure, "time", made)
    return made


def test_tasks_are_taken_in_turn(clock: Clock) -> None:
    found = measure.seconds({"a": clock.task("a", 5.0, 1.0, 3.0), "b": clock.task("b", 2.0)}, 3)
    assert clock.calls == ["a", "b"] * 3
    assert found["a"] == pytest.approx((3.0, 1.0))
    assert found["b"] == pytest.approx((2.0, 2.0))


def test_short_tasks_fill_a_spell_and_are_told_each(clock: Clock) -> None:
    tasks = {"short": clock.task("short", 9.0, 1e-5), "long": clock.task("long", 4e-3)}
    found = measure.timed(tasks, 2, spell=2e-3)
    # Once before anything, once to see how long it takes, and then in each repeat; a spell begins with a call that is not timed.
    assert clock.calls.count("long") == 2 + 2
    assert clock.calls.count("short") == 2 + 2 * (1 + 200)
    assert found["short"] == pytest.approx((1e-5, 1e-5))
    assert found["long"] == pytest.approx((4e-3, 4e-3))


def test_the_first_call_after_other_tasks_is_not_timed(clock: Clock) -> None:
    # Two calls before the spells; then the first of four calls finds caches that the other task has filled.
    slow = clock.task("slow", 1.0, 1.0, 7.0, 1.0, 1.0, 1.0, 7.0, 1.0, 1.0, 1.0)
    found = measure.timed({"slow": slow, "other": clock.task("other", 3.0)}, 2, spell=3.0)
    assert clock.calls == ["slow"] * 2 + ["other"] * 2 + (["slow"] * 4 + ["other"]) * 2
    assert found["slow"] == pytest.approx((1.0, 1.0))
    assert found["other"] == pytest.approx((3.0, 3.0))


def test_what_takes_too_long_is_not_repeated(clock: Clock) -> None:
    tasks = {
        "longer": clock.task("longer", 9.5), "long": clock.task("long", 3.0, 2.0), "other": clock.task("other", 0.1),
        # A run in which something is compiled says nothing of those after it.
        "compiled": clock.task("compiled", 0.1, 2.0, 0.1),
    }  # fmt: skip
    found = measure.timed(tasks, 5, budget=9.0)
    assert {name: clock.calls.count(name) for name in tasks} == {
        "longer": 1,
        "long": 3,
        "other": 2 + 5,
        "compiled": 3 + 5,
    }
    assert found["longer"] == pytest.approx((9.5, 9.5))
    assert found["long"] == pytest.approx((2.0, 2.0))
    assert found["compiled"] == pytest.approx((0.1, 0.1))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not tell a process's cores")
def test_one_core_and_back() -> None:
    before, threads = os.sched_getaffinity(0), os.environ.get("OMP_NUM_THREADS")
    with one_core() as core:
        assert os.sched_getaffinity(0) == {core}
        assert os.environ["OMP_NUM_THREADS"] == "1"
    assert os.sched_getaffinity(0) == before
    assert os.environ.get("OMP_NUM_THREADS") == threads


def test_optimised_code_is_waited_for_and_the_policy_restored() -> None:
    costs = tiering.policy.costs
    before = dataclasses.replace(costs)
    with optimised():
        assert tiering.policy.costs.wait > 1e9
        # So the first run is translated, however short it is.
        assert not tiering.policy.costs.optimised_translation(1000)
    assert costs == before


@pytest.mark.long
def test_peak_memory_is_that_of_a_process_of_its_own() -> None:
    """A system that does not exist ends its own process, and has no figure."""
    place = Place("wave", "problems", 0, "value", "translated")
    found = peaks([place, place._replace(system="no-such-peer")], quick=True)
    if not found:
        pytest.skip("this system does not tell the largest size of a process")
    assert list(found) == [place]
    assert 20 << 20 < found[place] < 1 << 30


@pytest.mark.parametrize(
    ("value", "lower", "met"), [(1.0, True, True), (3.0, True, False), (3.0, False, True), (1.0, False, False)]
)
def test_bars_of_rows(value: float, lower: bool, met: bool) -> None:
    assert Row("", value, "", 2.0, lower).met is met
    assert Row("", value, "").met is None
