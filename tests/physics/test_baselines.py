"""Ways to the gradient of a chain: revolve's steps by their recurrence, stacks by the addresses of a real one, and
weights."""

from functools import cache
from typing import Any

import pytest
from retrograd.examples import chains
from retrograd.simulator.energy.comparisons import ratio
from retrograd.simulator.energy.counts import Counts, Reuse
from retrograd.simulator.energy.pricing import NotModelled
from retrograd.simulator.energy.technology import Range, technology

import retrograd as rg
from retrograd.physics.baselines import Stack, advances, mixture


@cache
def fewest(steps: int, snapshots: int) -> int:
    """Advance k steps, keep that state, and reverse both parts: the best k (Griewank, Walther 2000, equation 4)."""
    if steps == 1:
        return 0
    if snapshots == 1:
        return steps * (steps - 1) // 2
    return min(k + fewest(steps - k, snapshots - 1) + fewest(k, snapshots) for k in range(1, steps))


@pytest.mark.parametrize("snapshots", range(1, 9))
def test_revolve(snapshots: int) -> None:
    assert [advances(n, snapshots) for n in range(1, 40)] == [fewest(n, snapshots) for n in range(1, 40)]


def run(steps: int, tech: str = "cmos45_caches", **how: Any) -> rg.EnergyReport:
    return rg.energy(rg.grad(chains.oscillator), 0.0, 0.5, 0.0, steps, tech=tech, **how)


@pytest.mark.parametrize("words", [1, 900, 1024, 1025, 5000])
def test_a_stack_is_what_its_addresses_cost(words: int) -> None:
    """Pushed once and popped once: the traffic behind a memory of 8 KiB is that of the addresses, plus the words
    that stay."""
    reuse, counts = Reuse(), run(1).counts
    for address in [*range(words), *reversed(range(words))]:
        reuse.access(address, 0, written=True)
    real = Counts(counts.program, {}, traffic=reuse.counted())
    found = mixture(technology("cmos45_caches"), [(1, counts), (-1, counts), (1, Stack(words))]).energy(
        technology("cmos45_caches")
    )
    assert isinstance(found, Range)
    missed = max(0, words - 1024)
    assert found.nominal == pytest.approx((words * 10 + missed * 20 + max(0, words - 4096) * 100) * 2e-12, abs=1e-18)
    # Each word is read at its first access, too, and written back when it leaves for good: a stack needs neither.
    assert real.between(1024, written=False) - words == missed
    assert real.between(1024, written=True) - missed == missed


def test_a_step_is_the_difference_of_two_runs() -> None:
    model = technology("cmos45_caches")
    short, long = run(8).counts, run(24).counts
    step = mixture(model, [(1 / 16, long), (-1 / 16, short)])
    twice = mixture(model, [(1 / 8, run(40).counts), (-1 / 8, long)])
    assert ratio(twice, step).range == pytest.approx((2, 2, 2))
    assert ratio(step, step).bound == ""
    lost = mixture(technology("cmos45"), [(1, short), (1, Stack(3))])
    assert [item.label for item in lost.price(technology("cmos45")).missing if isinstance(item.energy, NotModelled)][
        -1
    ] == "stack"
