"""What every test of the library does: run forward, look for garbage, run backward, compare every bit.

The first run of every function for given types is differentiated, too, by both routes (see tests/compiler/routes.py).
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from retrograd.compiler.compiled import Compiled, real_regions
from retrograd.simulator.machine import Machine

from retrograd.runtime._binding import bind, types_of
from retrograd.runtime._execution import execute, load, read
from retrograd.runtime._reversible import Reversible

#: steps of a run that is differentiated
SHORT = 3000
#: words for the cotangents that are kept
KEPT = 1 << 14


@pytest.fixture(scope="session")
def roundtrip(routes: ModuleType) -> Callable[..., Any]:
    """roundtrip(f, *args): all arguments after f, which leaves no garbage and gives them back bit for bit."""
    #: what was differentiated already
    done: dict[int, Compiled] = {}

    def run(function: Reversible, *args: Any, **keywords: Any) -> Any:
        values = bind(function, args, keywords)
        compiled = function.compiled_for(types_of(function, values))
        machine = load(compiled, values)
        before = list(machine.memory)
        execute(compiled, machine)
        after = list(machine.memory)
        own = {i for a in compiled.arguments for i in range(a.address, a.address + a.type.size)}
        assert [i for i in range(len(after)) if after[i] != before[i] and i not in own] == []
        assert not any(machine.registers)
        back = Machine(compiled.program, backward=True)
        back.load(0, after)
        execute(compiled, back)
        assert back.memory == before
        assert not any(back.registers)
        regions = real_regions(compiled.lowered)
        if machine.retired < SHORT and id(compiled) not in done and regions:
            done[id(compiled)] = compiled
            for keep in (0, KEPT):
                routes.compare(compiled.module, regions, before[: compiled.module.memory], keep=keep)
        return function.results(*read(compiled, machine))

    return run
