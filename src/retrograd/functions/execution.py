"""Compiled functions on machines: arguments are loaded as words, the machine runs, results are read.

    load(compiled, values)  →  Machine  →  execute(compiled, machine)  →  read(compiled, machine)

The arguments lie at the beginning of memory, in the order of the parameters. A trap is raised as a ProgramTrap, whose
message uses the names and lines of the source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.compiler.compiled import Compiled
from retrograd.functions.traps import explain
from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError
from retrograd.simulator.engines.machines.tiered_machine import machine_for
from retrograd.simulator.engines.tiering import ENGINES
from retrograd.simulator.machine import Machine, Stop, Trap
from retrograd.simulator.stores import limit_of
from retrograd.values.binding import located
from retrograd.values.marshal import from_words, to_words

__all__ = ["ENGINES", "ProgramTrap", "argument_words", "execute", "load", "read"]


class ProgramTrap(RetrogradError):
    """A compiled function trapped, or reached its limit of steps.

    `machine` stands before the instruction that trapped, and can run back to its start.
    """

    def __init__(self, diagnostic: Diagnostic, machine: Machine, trap: Trap | None) -> None:
        super().__init__(diagnostic)
        self.machine = machine
        self.trap = trap


def load(
    compiled: Compiled, values: list[Any], *, backward: bool = False, overflow: bool = True, engine: str = "auto"
) -> Machine:
    """A machine at the start of the program, these arguments in its memory. Raises InputError."""
    machine = machine_for(compiled.emitted.program, engine, backward=backward, overflow=overflow)
    machine.load(0, argument_words(compiled, values))
    return machine


def argument_words(compiled: Compiled, values: list[Any]) -> list[int]:
    """The words of all arguments, one argument after the other. Raises InputError at the parameter."""
    w, words = compiled.format, []
    for argument, value in zip(compiled.lowered.arguments, values, strict=True):
        try:
            words += to_words(argument.type, value, w, argument.name)
        except InputError as error:
            raise InputError(located(error.diagnostics[0], compiled.function, argument.name)) from None
    return words


def read(compiled: Compiled, machine: Machine) -> list[Any]:
    """The arguments in the machine's memory, in the order of the parameters."""
    w, arguments = compiled.format, compiled.lowered.arguments
    memory = machine.memory
    return [from_words(a.type, memory[a.address : a.address + a.type.size], w) for a in arguments]


def execute(
    compiled: Compiled,
    machine: Machine,
    max_steps: int | None = None,
    observe: Callable[[Machine, int], None] | None = None,
) -> None:
    """Run until the machine halts. Raises ProgramTrap.

    `observe` is called after every step, as by `Machine.run`; `rg.external` blocks are then not executed.
    """
    try:
        if compiled.emitted.externals and observe is None:
            from retrograd.functions.externals import run_with_externals

            outcome = run_with_externals(compiled, machine, limit_of(max_steps))
        else:
            outcome = machine.run(max_steps, observe=observe)
    except Trap as trap:
        raise ProgramTrap(explain(compiled, machine, trap), machine, trap) from None
    if outcome.stop is not Stop.HALTED:
        source = compiled.program.source
        span = source.span(machine.pc)
        diagnostic = Diagnostic("RG0420", f"stopped by the limit of {max_steps} steps", span, line=source.line(span))
        raise ProgramTrap(diagnostic, machine, None)
