"""Fixtures for the tests of CUDA: a driver without a device, which says at the end what was done wrong, or not given back."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from retrograd.simulator.engines.cuda.context import Context
from retrograd.simulator.engines.cuda.driver import driver, using


@pytest.fixture(scope="module", autouse=True)
def quick_collection() -> Iterator[None]:
    """What was there before is left out when garbage is collected: these tests collect often."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def fake(fakes: ModuleType) -> Iterator[Any]:
    """A fake driver with two devices, in the place of this machine's. What the test left is collected, and then checked."""
    library = fakes.FakeDriver(devices=[fakes.FakeDevice(), fakes.FakeDevice(name="Fake H100", capability=(9, 0))])
    with using(library):
        yield library
        gc.collect()
        library.check()


@pytest.fixture
def context(fake: Any) -> Iterator[Context]:
    """The first device, ready for work."""
    with Context(driver().device(0)) as context:
        yield context


@pytest.fixture(scope="session")
def on_host(module: Callable[[str], ModuleType]) -> ModuleType:
    """kernel_on_host.py: `on_host.batches_on(fake)` lets the fake driver run what batches are made of."""
    return module("tests/simulator/engines/cuda/kernel_on_host.py")


@pytest.fixture
def device(fake: Any, on_host: ModuleType) -> Iterator[Any]:
    """The fake driver, running batches by the kernel's own code."""
    with on_host.batches_on(fake):
        yield fake
