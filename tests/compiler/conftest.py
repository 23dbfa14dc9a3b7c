"""Fixtures for the compiler's tests: modules of this folder that tests share, which cannot be imported by name."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _module(stem: str) -> ModuleType:
    name = f"retrograd_tests_compiler_{stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{stem}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Dataclasses look their module up by name while it is being executed.
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def interpreter() -> ModuleType:
    """interpreter.py: `interpret(module, memory)` runs the IR itself."""
    return _module("interpreter")


@pytest.fixture(scope="session")
def random_ir() -> ModuleType:
    """random_ir.py: `generate(seed)` is a random module that runs without trapping, most often."""
    return _module("random_ir")
