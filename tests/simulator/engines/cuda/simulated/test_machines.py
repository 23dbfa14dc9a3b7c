"""Whole machines as threads of a kernel, under Numba's CUDA simulator, in lockstep with the reference machine: with cotangents, turned round, stopped anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache, partial
from types import ModuleType
from typing import Any

import pytest
from numba import cuda
from retrograd.isa.words import Format
from retrograd.simulator.engines.cuda.interpreter import machine_source
from support import generator
from support.interpreted_machine import InterpretedMachine
from support.machines import Lockstep

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

#: programs in the default tier; in the full tier, in pieces that can run side by side
PROGRAMS, SLOW, SLOW_CHUNK = 6, 200, 50

KERNEL = """
def machines(code, registers, memory, cotangents, memory_cotangents, control, executed, n, modes):
    t = cuda.grid(1)
    resume(code, registers, memory, cotangents, memory_cotangents, control, executed, t, cuda.gridsize(1), n, modes)
"""


@pytest.fixture(autouse=True)
def transformations() -> None:
    """Nothing is skipped here: each test runs once in the full tier, too."""


def kernel(w: Format, differentiating: bool, change: Callable[[str], str] = lambda text: text) -> Callable[..., None]:
    """`resume` as a kernel of as many threads as there are machines."""
    scope: dict[str, Any] = {"device": cuda.jit(device=True), "cuda": cuda}
    exec(change(machine_source(w, differentiating)) + KERNEL, scope)
    launched = cuda.jit(scope["machines"])

    def resume(*arguments: Any) -> None:
        *arrays, _, threads, n, modes = arguments
        launched[1, threads](*arrays, n, modes)

    return resume


@pytest.fixture(scope="session")
def engines(module: Callable[[str], ModuleType]) -> ModuleType:
    return module("tests/simulator/engines/test_engines.py")


def play(seeds: Iterable[int], engines: ModuleType, make: Any) -> Counter[str]:
    traps: Counter[str] = Counter()
    for seed in seeds:
        with engines.told(seed):
            traps.update(engines.play(make, generator.generate(seed)).traps)
    return traps


def test_programs(engines: ModuleType) -> None:
    assert play(range(PROGRAMS), engines, partial(InterpretedMachine, resumes=cache(kernel)))


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SLOW, SLOW_CHUNK))
def test_many(first: int, engines: ModuleType) -> None:
    make = partial(InterpretedMachine, resumes=cache(kernel))
    play(range(30_000 + first, 30_000 + first + SLOW_CHUNK), engines, make)


@pytest.mark.long
@pytest.mark.parametrize("name", ["LOOP", "FIBONACCI", "CALLS"])
def test_limits(name: str, engines: ModuleType) -> None:
    text = getattr(engines, name)
    text = text.format(60) if name == "LOOP" else text
    for lifted in (False, True):
        engines.check_limits(
            Lockstep, partial(InterpretedMachine, resumes=cache(kernel)), text, lifted, range(1, 201, 29)
        )


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("return x1 * y1 + ", "return x1 * y1 - "),
        ("if (address ^ MIN) >= (n ^ MIN)", "if False"),
    ],
    ids=["product", "guard"],
)
def test_a_planted_fault_is_found(right: str, wrong: str, engines: ModuleType) -> None:
    def change(text: str) -> str:
        assert right in text
        return text.replace(right, wrong)

    spoiled = partial(InterpretedMachine, resumes=cache(partial(kernel, change=change)))
    with pytest.raises((AssertionError, IndexError)):
        play(range(30), engines, spoiled)
