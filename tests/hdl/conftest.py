"""What the tests of the hardware share: the module lockstep.py, and simulators."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from amaranth.lib.wiring import Component
from retrograd.hdl.bus import host_interface, top
from retrograd.hdl.bus.transactions import Order, OrderReport
from retrograd.hdl.core import core, cores
from retrograd.hdl.core.core import Core
from retrograd.hdl.core.overlapped import core as overlapped_core
from retrograd.hdl.core.units import scaled_divider
from retrograd.hdl.microcode import Microcode, microcode_for
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.amaranth_simulator import Simulation
from retrograd.isa.words import Format


@pytest.fixture(scope="session")
def lockstep(module: Callable[[str], ModuleType]) -> ModuleType:
    """The module tests/hdl/lockstep.py."""
    return module("tests/hdl/lockstep.py")


@pytest.fixture(scope="session")
def bus_model(module: Callable[[str], ModuleType]) -> ModuleType:
    """The module tests/hdl/bus_model.py."""
    return module("tests/hdl/bus_model.py")


@cache
def _simulation(w: Format) -> Simulation:
    return Simulation(Core(parameters_of(w)))


def parameters_of(w: Format) -> Parameters:
    return Parameters(w, code_words=256, data_words=64)


@pytest.fixture(scope="session")
def microcode() -> Callable[[Parameters], Microcode]:
    """A copy of the microcode, to plant something in."""

    def of(p: Parameters) -> Microcode:
        made = copy(microcode_for(p))
        made.dispatch, made.rows = list(made.dispatch), list(made.rows)
        return made

    return of


@pytest.fixture(scope="session")
def simulate() -> Callable[[Format], Callable[[Sequence[Order]], list[OrderReport]]]:
    """Carries out orders on a core of the format, each time from its reset on, in Amaranth's simulator."""
    return lambda w: _simulation(w).run


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], type]:
    """planted("core.units.branch", old, new): hardware made from here on has this unit with the one place `old` of its source replaced; the unit."""

    def plant(name: str, old: str, new: str) -> type:
        unit = importlib.import_module(f"retrograd.hdl.{name}")
        assert unit.__file__ is not None
        source = Path(unit.__file__).read_text(encoding="utf-8")
        assert source.count(old) == 1, f"{old} stands {source.count(old)} times in {name}"
        changed = ModuleType(f"retrograd_tests_planted_{name}")
        exec(compile(source.replace(old, new), f"{name}, planted", "exec"), changed.__dict__)
        own = {key: value for key, value in vars(unit).items() if getattr(value, "__module__", None) == unit.__name__}
        parts = [key for key, value in own.items() if isinstance(value, type) and issubclass(value, Component)]
        users = (core, overlapped_core, cores, host_interface, top, scaled_divider)
        used = [(module, key) for module in users for key in parts if hasattr(module, key)]
        for key in parts:
            # The methods that another class inherits are planted there as well.
            if own[key].__subclasses__():
                for method, function in vars(getattr(changed, key)).items():
                    if callable(function) and method != "__init__":
                        monkeypatch.setattr(own[key], method, function)
        for module, key in used:
            monkeypatch.setattr(module, key, getattr(changed, key))
        made: type = getattr(changed, used[0][1])
        return made

    return plant
