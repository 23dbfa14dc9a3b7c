"""Engines by name: what runs a program.

    auto        the fastest that suits the run: Python for a few steps, compiled code for more
    reference   the definition, in plain Python
    native      compiled code from the first step, its tiers chosen by how long the run is
    threaded    tier 1: an interpreter whose handlers are machine code
    translated  tier 2: the program as machine code
    cuda        batches on a GPU

All give the same words, traps and counts.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError, nearest
from retrograd.isa.program import Program
from retrograd.simulator.engines.costs import Cost, cost_of
from retrograd.simulator.machine import Machine

ENGINES = ("auto", "reference", "native", "threaded", "translated", "cuda")

#: names the engine that `auto` stands for
VARIABLE = "RETROGRAD_ENGINE"
_FROM_VARIABLE = f" ({VARIABLE} in the environment)"

#: steps that Python takes in less time than it takes to import the engines
SHORT = 100_000
#: steps of Python in one process, in however many runs, after which the engines are worth importing: those that they would have saved.
#: Where NumPy is imported already, no single run takes more, either: most of the time of SHORT is NumPy's.
MANY = 20_000
_NATIVE = "retrograd.simulator.engines.native"


class StartingMachine(Machine):
    """The reference machine for its first SHORT steps, and then a NativeMachine.

    A run in which they end begins anew, as compiled code. So a short one never waits for imports that take longer than it does.
    """

    #: steps until it is a NativeMachine
    _left = SHORT
    #: steps that all of them have taken, and that compiled code would have saved
    all_taken = 0

    def _loop(self, max_steps: int | None) -> int:
        cost = cost_of(self.program, self._differentiating)
        first = -(-self._left // cost.weight)
        if max_steps is not None and max_steps <= first:
            return self._of_python(max_steps, cost)
        stores = self._registers, self._memory, self.executed[+1], self.executed[-1]
        # What cotangents were dropped is not wound back: with them, compiled code goes on from where it is.
        before = self._pc, self._br, self._direction, [store[:] for store in stores if self._companions is None]
        taken = self._of_python(first, cost)
        if self._left or self.at_end:
            return taken
        if self._companions is None:
            taken = 0
            self._pc, self._br, self._direction, words = before
            for store, old in zip(stores, words, strict=True):
                store[:] = old
        self._become_native()
        return taken + self._loop(None if max_steps is None else max_steps - taken)

    def _of_python(self, steps: int, cost: Cost) -> int:
        """Take `steps` steps in Python, fewer where the run ends. Returns their number."""
        before = cost.python
        taken = super()._loop(steps)
        self._left = max(0, self._left - cost.weight * taken)
        cost.count_python(taken)
        StartingMachine.all_taken += cost.python - before
        return taken

    def _become_native(self) -> None:
        from retrograd.simulator.engines.native import NativeMachine

        fresh = NativeMachine(self.program, at_once=True, memory_limit=len(self._memory))
        # What a NativeMachine has of its own, and the state of this one.
        self.__dict__ = {**vars(fresh), **vars(self)}
        self.__class__ = NativeMachine  # type: ignore[assignment]


def engine_named(name: str) -> str:
    """The engine of that name, `auto` resolved by the environment. Raises InputError RG1001."""
    asked, where = name, ""
    if name == "auto" and os.environ.get(VARIABLE):
        asked, where = os.environ[VARIABLE], _FROM_VARIABLE
    if asked not in ENGINES:
        message = f"there is no engine `{asked:.40}`{where}"
        hint = nearest(asked, ENGINES) or f"engines: {', '.join(ENGINES)}"
        raise InputError(Diagnostic("RG1001", message, hint=hint))
    return asked


def machine_for(program: Program, engine: str = "auto", **modes: Any) -> Machine:
    """A machine of that engine, with `modes` as Machine takes them. Raises InputError RG1001, and what Machine raises."""
    found = engine_named(engine)
    if found == "reference":
        return Machine(program, **modes)
    if found == "cuda":
        where = _FROM_VARIABLE if engine == "auto" else ""
        message = f"the engine `cuda`{where} runs batches, and this is a single run"
        raise InputError(
            Diagnostic("RG1001", message, hint="Use rg.run_batch, or `--batch`; a single run is for `native`.")
        )
    if found == "auto" and _NATIVE not in sys.modules and StartingMachine.all_taken < MANY:
        machine = StartingMachine(program, **modes)
        if "numpy" in sys.modules:
            machine._left = MANY - StartingMachine.all_taken
        return machine
    # Imported here: NumPy and LLVM are for those who use them.
    from retrograd.simulator.engines.native import NativeMachine

    match found:
        case "threaded" | "translated":
            return NativeMachine(program, tier=found, **modes)
        case "native":
            return NativeMachine(program, at_once=True, **modes)
        case _:
            return NativeMachine(program, **modes)


def engine_of(machine: Machine) -> str:
    """What ran the machine, or would: reference, threaded or translated."""
    return getattr(machine, "engine", "reference")
