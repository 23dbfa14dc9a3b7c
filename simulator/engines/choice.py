"""Machines by the name of their engine.

machine_for(program, "translated")
"""

from __future__ import annotations

from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.program import Program
from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.tiered_machine import TieredMachine
from retrograd.simulator.engines.tiering import FROM_VARIABLE, Decision, Reason, engine_named
from retrograd.simulator.machine import Machine


def machine_for(program: Program, engine: str = "auto", **modes: Any) -> Machine:
    """A machine of that engine, with `modes` as Machine takes them; for `cuda`, `where` may be the device.

    Raises InputError RG1001, DeviceError, and the errors of Machine.
    """
    found = engine_named(engine)
    if found == "reference":
        tiering.record(Decision("reference", Reason.NAMED))
        return Machine(program, **modes)
    if found == "cuda":
        # Imported here: it imports NumPy and the compiler.
        from retrograd.simulator.engines.cuda.stepped_machine import device_machine, has_parallel_loops

        if not has_parallel_loops(program):
            where = FROM_VARIABLE if engine == "auto" else ""
            message = f"the engine `cuda`{where} runs batches, and this is a single run without parallel loops"
            hint = "Use rg.run_batch, or `--batch`; a single run is for `native`."
            raise InputError(Diagnostic("RG1001", message, hint=hint))
        return device_machine(program, **modes)
    return TieredMachine(program, engine=found, **modes)
