"""Compiled functions on machines: arguments in, a run, arguments out; traps told in the terms of the source."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from retrograd.compiler.compiled import Compiled, Options
from retrograd.functions.reversible import Inverse, Reversible, results
from retrograd.functions.traps import explain
from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError
from retrograd.isa.words import Format
from retrograd.simulator.engines.choice import ENGINES, engine_of, machine_for
from retrograd.simulator.machine import Machine, Stop, Trap
from retrograd.simulator.stores import limit_of
from retrograd.values.marshal import bind, from_words, located, to_words, types_of

__all__ = ["ENGINES", "ProgramTrap", "Result", "execute", "load", "read", "run", "uncomputing_level"]


class ProgramTrap(RetrogradError):
    """A compiled function that could not go on. `machine` stands before the instruction, and can run back to its start."""

    def __init__(self, diagnostic: Diagnostic, machine: Machine, trap: Trap | None) -> None:
        super().__init__(diagnostic)
        self.machine = machine
        self.trap = trap


@dataclass
class Result:
    """A finished run: `values` are all arguments afterwards, by position and name."""

    values: Any
    steps: int
    erased_bits: int
    machine: Machine = field(repr=False)
    compiled: Compiled = field(repr=False)

    @property
    def engine(self) -> str:
        """What ran it: reference, threaded or translated."""
        return engine_of(self.machine)

    @property
    def words(self) -> dict[str, list[int]]:
        """The arguments afterwards as words, by name: exact, where a float64 has but 53 bits."""
        memory = self.machine.memory
        return {a.name: memory[a.address : a.address + a.type.size] for a in self.compiled.arguments}


def run(
    function: Reversible | Inverse,
    *args: Any,
    engine: str = "auto",
    backward: bool = False,
    max_steps: int | None = None,
    format: Format | str | None = None,
    options: Options | None = None,
    overflow: bool = True,
    **keywords: Any,
) -> Result:
    """Run a reversible function on a machine, from `start` to `finish` or, backward, the other way.

    `engine`: what runs it (`retrograd.functions.execution.ENGINES`); all give the same bits. Raises CompileError for a function that cannot be
    compiled, InputError for arguments that do not fit it or for no such engine, ProgramTrap where it traps or has used up `max_steps`.
    """
    if isinstance(function, Inverse):
        function, backward = ~function, not backward
    values = bind(function, args, keywords)
    compiled = function.compiled_for(types_of(function, values), format, options)
    machine = load(compiled, values, backward=backward, overflow=overflow, engine=engine)
    execute(compiled, machine, max_steps)
    return Result(results(function, read(compiled, machine)), machine.retired, machine.erased_bits, machine, compiled)


def call(function: Reversible, args: Sequence[Any], keywords: dict[str, Any], backward: bool) -> Any:
    """`run(…).values`, without the counts: what `f(*args)` and `(~f)(*args)` are. Parameters may have the names of options."""
    values = bind(function, args, keywords)
    compiled = function.compiled_for(types_of(function, values))
    machine = load(compiled, values, backward=backward)
    execute(compiled, machine)
    return results(function, read(compiled, machine))


def uncomputing_level(function: Reversible, *args: Any, **keywords: Any) -> float:
    """log₂(N_reversible / N_erasing): what undoing costs, in instructions executed on these arguments.

    0: nothing is uncomputed; 1: the work is doubled. The other count is that of the same source in erase mode.
    Source: the uncomputing level of Liu and Zhao, Differentiate everything with a reversible embedded language, 2020.
    """
    reversible = run(function, *args, **keywords)
    erasing = run(function.with_options(erase=True), *args, **keywords)
    return math.log2(reversible.steps / erasing.steps)


def load(
    compiled: Compiled, values: list[Any], *, backward: bool = False, overflow: bool = True, engine: str = "auto"
) -> Machine:
    """A machine that is about to run the program on these arguments."""
    machine = machine_for(compiled.program, engine, backward=backward, overflow=overflow)
    for address, words in loaded_words(compiled, values):
        machine.load(address, words)
    return machine


def loaded_words(compiled: Compiled, values: list[Any]) -> Iterator[tuple[int, list[int]]]:
    """(address, words) of each argument. Raises InputError at the parameter."""
    for argument, value in zip(compiled.arguments, values, strict=True):
        try:
            yield argument.address, to_words(argument.type, value, compiled.format, argument.name)
        except InputError as error:
            raise InputError(located(error.diagnostics[0], compiled.function, argument.name)) from None


def read(compiled: Compiled, machine: Machine) -> list[Any]:
    """The arguments as they stand in the machine's memory."""
    memory, w = machine.memory, compiled.format
    return [from_words(a.type, memory[a.address : a.address + a.type.size], w) for a in compiled.arguments]


def execute(
    compiled: Compiled,
    machine: Machine,
    max_steps: int | None = None,
    observe: Callable[[Machine, int], None] | None = None,
) -> None:
    """Run until the machine halts. Raises ProgramTrap.

    `observe` looks at every step, as in `Machine.run`; statements for the host are then not shown.
    """
    marks, max_steps = compiled.emitted.externals, limit_of(max_steps)
    try:
        if marks and observe is None:
            from retrograd.functions.externals import run_with_externals

            outcome = run_with_externals(compiled, machine, max_steps)
        else:
            outcome = machine.run(max_steps, observe=observe)
    except Trap as trap:
        raise ProgramTrap(explain(compiled, machine, trap), machine, trap) from None
    if outcome.stop is not Stop.HALTED:
        source = compiled.program.source
        span = source.span(machine.pc)
        diagnostic = Diagnostic("RG0420", f"stopped by the limit of {max_steps} steps", span, line=source.line(span))
        raise ProgramTrap(diagnostic, machine, None)
