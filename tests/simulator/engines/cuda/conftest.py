"""Fixtures for the tests of CUDA. Tests in simulated/ need Numba's CUDA simulator, which a process has or has not from its start: test_simulated.py runs them."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType

import pytest

collect_ignore = [] if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1" else ["simulated"]


@pytest.fixture(scope="session")
def on_host(module: Callable[[str], ModuleType]) -> ModuleType:
    """kernel_on_host.py: `on_host.HostKernel` runs the translated kernel's own code on the host."""
    return module("tests/simulator/engines/cuda/kernel_on_host.py")
