"""What the tests of the hardware share: the module lockstep.py, and simulators."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from retrograd.hdl.core import Core
from retrograd.hdl.microcode import Microcode
from retrograd.hdl.orders import Order, Report
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation import Simulation
from retrograd.isa.words import Format

_LOCKSTEP = Path(__file__).parent / "lockstep.py"


@pytest.fixture(scope="session")
def lockstep() -> ModuleType:
    """The module tests/hdl/lockstep.py."""
    name = "retrograd_tests_lockstep"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, _LOCKSTEP)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Dataclasses look their module up by name while it is being executed.
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@cache
def _microcode(w: Format) -> Microcode:
    return Microcode(parameters_of(w))


def parameters_of(w: Format) -> Parameters:
    return Parameters(w, code_words=256, data_words=64)


@pytest.fixture(scope="session")
def microcode() -> Callable[[Format], Microcode]:
    """The microcode of a format, made once."""
    return _microcode


@pytest.fixture(scope="session")
def simulate() -> Callable[[Format], Callable[[Sequence[Order]], list[Report]]]:
    """Carries out orders on a new core of the format, in Amaranth's simulator."""

    def of(w: Format) -> Callable[[Sequence[Order]], list[Report]]:
        return lambda orders: Simulation(Core(parameters_of(w), _microcode(w))).run(orders)

    return of
