"""Gradient programs with a transformation and without it: the same words where both end, and no trap that is lost.

lift(P⁻¹) ends   ⇒   P; lift(P⁻¹) ends with the same memory
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest
from retrograd.compiler.backend.emission import emit
from retrograd.compiler.derivatives.gradients import Differentiated, gradient
from retrograd.simulator.machine import Machine, Stop, Trap

QUICK, CHUNK = 120, 60
SLOW, SLOW_CHUNK = 40_000, 1000
STEPS = 20_000


def ended(made: Differentiated, case: Any, seeds: Mapping[int, int]) -> list[int] | None:
    """The memory after the run; None after a trap, and where the run does not end."""
    machine = Machine(emit(made.module).program)
    machine.load(0, case.memory)
    for address, word in seeds.items():
        machine.load(address + made.offset, [word])
    try:
        if machine.run(STEPS).stop is not Stop.HALTED:
            return None
    except Trap:
        return None
    assert not any(machine.registers), "registers are left"
    return machine.memory[:]


def compare(case: Any) -> str:
    """How the gradient of one random module went with each set of transformations."""
    rng = random.Random(case.seed)
    regions, w = case.regions, case.module.format
    module = ~case.module if rng.random() < 0.3 else case.module
    inputs = [regions["x"], regions["loss"], regions["outs"]]
    options: dict[str, Any] = {"loss": 0} if rng.random() < 0.5 else {}
    outputs = [regions["loss"]] if options else [regions["loss"], regions["outs"], regions["x"]]
    seeds = {}
    if not options:
        given = [i for r in outputs for i in range(r.address, r.address + r.size)]
        seeds = {i: rng.randint(-2 << w.frac, 2 << w.frac) & w.mask for i in given}
    fast = gradient(module, inputs, outputs, forward=False, **options)
    if not fast.conditional:
        return "reads what it changes"
    whole = gradient(module, inputs, outputs, **options)
    assert (fast.offset, fast.value) == (whole.offset, whole.value)
    expected, found = ended(whole, case, seeds), ended(fast, case, seeds)
    if found is None:
        return "trapped" if expected is None else "undecided"
    assert found == expected
    return "ended"


def compare_all(seeds: range, random_sums: ModuleType) -> Counter[str]:
    went: Counter[str] = Counter()
    failures: list[Exception] = []
    for seed in seeds:
        try:
            went[compare(random_sums.generate(seed))] += 1
        except Exception as error:
            error.add_note(f"random_sums.generate({seed})")
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(seeds)} modules", failures)
    return went


@pytest.mark.parametrize("first", range(0, QUICK, CHUNK))
def test_random_sums(first: int, random_sums: ModuleType) -> None:
    went = compare_all(range(first, first + CHUNK), random_sums)
    assert went["ended"] >= CHUNK // 4, went


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK, QUICK + SLOW, SLOW_CHUNK))
def test_random_sums_at_length(first: int, random_sums: ModuleType) -> None:
    went = compare_all(range(first, first + SLOW_CHUNK), random_sums)
    assert went["ended"] >= SLOW_CHUNK // 4, went
    assert went["trapped"] >= SLOW_CHUNK // 50, went
