"""Fixtures for tests under Numba's CUDA simulator: two devices, and batches by either tier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from retrograd.simulator.engines.cuda import batch
from retrograd.simulator.engines.cuda.runtime import Device, device, numba_cuda
from retrograd.simulator.engines.tiering import Decision, Policy, Reason
from support import kernel_on_host


@pytest.fixture(autouse=True)
def two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator has one device."""
    gpus = numba_cuda().gpus
    monkeypatch.setattr(gpus, "lst", (gpus.lst[0], type(gpus.lst[0])(1)))


@pytest.fixture
def gpu() -> Device:
    """The first device."""
    return device(0)


@pytest.fixture
def translated(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Batches run the translated kernel, by the host; `launches` has (blocks, threads in a block, instances) of each launch."""
    found = kernel_on_host.HostKernel
    monkeypatch.setattr(batch, "TranslatedKernel", found)
    chosen = Decision("translated", Reason.LOADED)
    monkeypatch.setattr(Policy, "decide_device", lambda *_: chosen)
    found.launches.clear()
    batch._loaded.clear()
    yield found
    batch._loaded.clear()


@pytest.fixture
def bare(translated: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """As `translated`, without optimisation, for many programs."""
    monkeypatch.setattr(translated, "level", 0)
    return translated


@pytest.fixture(params=["translated", "interpreted"])
def tier(request: pytest.FixtureRequest) -> str:
    """Batches run by each tier."""
    if request.param == "translated":
        request.getfixturevalue("translated")
    return str(request.param)
