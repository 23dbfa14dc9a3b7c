"""Fixtures for tests of the hardware: simulators, and planted faults."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from itertools import accumulate
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from amaranth.lib.wiring import Component
from retrograd.hdl.bus import host_interface, top
from retrograd.hdl.core import barrel, core, cores, divider, two_slots
from retrograd.hdl.core import overlapped as overlapped_core
from retrograd.hdl.core.core import Core
from retrograd.hdl.microcode import Microcode, microcode_for
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.amaranth_simulator import Simulation
from retrograd.hdl.simulation.transactions import Order, OrderReport
from retrograd.isa.words import Format


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
    """planted("core.units", old, new): hardware made from here on has the unit in which the one place `old` of the module's source is replaced; the unit.

    "core.units.GuardUnit" looks for the place in this unit only.
    """

    def plant(name: str, old: str, new: str) -> type:
        path, _, last = name.rpartition(".")
        within = last if last[0].isupper() else None
        unit = importlib.import_module(f"retrograd.hdl.{path if within else name}")
        assert unit.__file__ is not None
        source = Path(unit.__file__).read_text(encoding="utf-8")
        spans = _spans(source)
        begin, end = spans[within] if within else (0, len(source))
        count = source.count(old, begin, end)
        assert count == 1, f"{old} stands {count} times in {name}"
        at = source.index(old, begin, end)
        changed = ModuleType(f"retrograd_tests_planted_{name}")
        # A dataclass looks its module up.
        monkeypatch.setitem(sys.modules, changed.__name__, changed)
        exec(compile(source[:at] + new + source[at + len(old) :], f"{name}, planted", "exec"), changed.__dict__)
        own = {key: value for key, value in vars(unit).items() if getattr(value, "__module__", None) == unit.__name__}
        parts = [key for key, value in own.items() if isinstance(value, type) and issubclass(value, Component)]
        users = (core, overlapped_core, barrel, two_slots, cores, host_interface, top, divider)
        functions = [key for key, value in own.items() if isinstance(value, FunctionType)]
        # Another module may have a function of its own by the same name.
        used = [(m, key) for m in users for key in (*parts, *functions) if getattr(m, key, None) is own[key]]
        for key in parts:
            # The methods that another class inherits are planted there as well.
            if own[key].__subclasses__():
                for method, function in vars(getattr(changed, key)).items():
                    if callable(function) and method != "__init__":
                        monkeypatch.setattr(own[key], method, function)
        for module, key in used:
            monkeypatch.setattr(module, key, getattr(changed, key))
        here = [key for key in parts if spans[key][0] <= at < spans[key][1]]
        made: type = getattr(changed, here[0] if here else used[0][1])
        return made

    return plant


def _spans(source: str) -> dict[str, tuple[int, int]]:
    """Class -> the first character of its source, and the one behind it."""
    lines = source.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    classes = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    return {node.name: (starts[node.lineno - 1], starts[node.end_lineno or 0]) for node in classes}
