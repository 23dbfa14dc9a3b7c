"""What every test of the library does: run forward, look for garbage, run backward, compare every bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from retrograd.simulator.machine import Machine

from retrograd.execution import execute, load, read
from retrograd.functions import Reversible, results
from retrograd.marshal import bind, types_of


@pytest.fixture(scope="session")
def roundtrip() -> Callable[..., Any]:
    """roundtrip(f, *args): all arguments after f, which leaves no garbage and gives them back bit for bit."""

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
        return results(function, read(compiled, machine, values))

    return run
