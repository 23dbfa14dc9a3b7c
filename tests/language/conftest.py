"""Fixtures for the tests of the language: modules of this folder and the next, which cannot be imported by name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

_HERE = Path(__file__).parent
_PACKAGE = "retrograd_tests_random_programs"


def _load(name: str, path: Path) -> ModuleType:
    if name not in sys.modules:
        inside = [str(path.parent)] if path.stem == "__init__" else None
        spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=inside)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Dataclasses look their module up by name while it is being executed.
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def _part(stem: str) -> ModuleType:
    _load(_PACKAGE, _HERE / "random_programs" / "__init__.py")
    return importlib.import_module(f"{_PACKAGE}.{stem}")


@pytest.fixture(scope="session")
def interpreter() -> ModuleType:
    """tests/compiler/interpreter.py: `interpret(module, memory)` runs the IR itself."""
    return _load("retrograd_tests_language_interpreter", _HERE.parent / "compiler" / "interpreter.py")


@pytest.fixture(scope="session")
def generate() -> ModuleType:
    """random_programs/generate.py: `generate(seed)` is a random program of the language."""
    return _part("generate")


@pytest.fixture(scope="session")
def checks() -> ModuleType:
    """random_programs/checks.py: what must hold for a program, by the model, the IR and the machine."""
    return _part("checks")


@pytest.fixture(scope="session")
def edges() -> ModuleType:
    """random_programs/edges.py: `near_the_edges(seed)` is a random program whose sums nearly overflow."""
    return _part("edges")
