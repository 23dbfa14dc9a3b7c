"""What the tests of the compiler share: modules of random intermediate code."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def random_ir(module: Callable[[str], ModuleType]) -> ModuleType:
    """random_ir.py: `generate(seed)` is a random module that runs without trapping, most often."""
    return module("tests/compiler/random_ir.py")


@pytest.fixture(scope="session")
def random_sums(module: Callable[[str], ModuleType]) -> ModuleType:
    """random_sums.py: `generate(seed)` is a random module that mostly accumulates."""
    return module("tests/compiler/random_sums.py")
