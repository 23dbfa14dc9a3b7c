"""Compiled functions on machines: arguments are loaded as words, the machine runs, results are read.

    load(compiled, values)  →  Machine  →  execute(compiled, machine)  →  read(compiled, machine)

The arguments lie at the beginning of memory, in the order of the parameters. A trap is raised as a ProgramTrap, whose
message uses the names and lines of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled
from retrograd.compiler.language.types import ArrayType
from retrograd.functions.traps import explain
from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.engines.tiering import ENGINES, engine_named
from retrograd.simulator.machine import Machine, Stop, Trap
from retrograd.simulator.stores import limit_of
from retrograd.values.binding import Arguments, located
from retrograd.values.marshal import from_words, to_words, word_array
from retrograd.values.precision import Losses
from retrograd.values.trees import has_trees, restored

if TYPE_CHECKING:
    from retrograd.simulator.engines.machines import FinishedRun

__all__ = [
    "ENGINES",
    "Finished",
    "ProgramTrap",
    "argument_words",
    "execute",
    "finished",
    "load",
    "machine_of",
    "read",
    "words_of",
]

#: engines that run a loaded translation
_TRANSLATING = frozenset({"auto", "native", "translated"})
_NOTHING: Mapping[int, int] = MappingProxyType({})
#: a run at its end: both have `memory`, `retired`, `erased_bits` and `engine`
Finished: TypeAlias = "Machine | FinishedRun"


class ProgramTrap(RetrogradError):
    """A compiled function trapped, or reached its limit of steps.

    `machine` stands before the instruction that trapped, and can run back to its start.
    """

    def __init__(self, diagnostic: Diagnostic, machine: Machine, trap: Trap | None) -> None:
        super().__init__(diagnostic)
        self.machine = machine
        self.trap = trap


class Unexplained(Exception):
    """A run that trapped, of which no machine has given the trap: the caller did not ask for it."""


def load(
    compiled: Compiled,
    values: list[Any],
    *,
    backward: bool = False,
    overflow: bool = True,
    engine: str = "auto",
    losses: Losses | None = None,
) -> Machine:
    """A machine at the start of the program, these arguments in its memory. `losses`: see `argument_words`. Raises InputError."""
    machine = machine_for(compiled.emitted.program, engine, backward=backward, overflow=overflow)
    machine.load(0, _argument_words(compiled, values, losses))
    return machine


def argument_words(compiled: Compiled, values: list[Any], losses: Losses | None = None) -> list[int]:
    """The words of all arguments, one argument after the other. Raises InputError at the parameter.

    Numbers that lose most of their bits are reported as `Options.precision` states; with `losses` they are noted there.
    """
    words = _argument_words(compiled, values, losses)
    return [*words] if isinstance(words, list) else words.tolist()


def _argument_words(
    compiled: Compiled, values: list[Any], losses: Losses | None = None
) -> list[int] | NDArray[np.uint64]:
    """The same, not to be changed; an array where an argument is one. Those of one call are made once: see `Arguments`."""
    # A derived program has the arguments of its function.
    of, w = compiled.lowered.arguments, compiled.format
    made = values.made if isinstance(values, Arguments) else None
    if made is not None and made[0] is of:
        return made[1]
    words: list[int] = []
    parts: list[Any] = []
    # Of one call they are reported once.
    noted = losses
    if noted is None and compiled.options.precision != "ignore":
        noted = None if isinstance(values, Arguments) and values.reported else Losses()
    for argument, value in zip(of, values, strict=True):
        t = argument.type
        try:
            if type(t) is ArrayType:
                parts += (words, word_array(t, value, w, argument.name, noted))
                words = []
            else:
                words += to_words(t, value, w, argument.name, noted)
        except InputError as error:
            raise InputError(located(error.diagnostics[0], compiled.function, argument.name)) from None
    found = words if not parts else np.concatenate([np.array(part, dtype=np.uint64) for part in (*parts, words)])
    if isinstance(values, Arguments):
        values.reported = True
    if losses is None and noted:
        noted.report(compiled)
    if made is None and isinstance(values, Arguments):
        values.made = of, found
    return found


def words_of(run: Finished) -> Any:
    """The memory after a run, in which slices are lists or arrays of words."""
    if not isinstance(run, Machine):
        return run.memory.array
    return getattr(run.memory.store, "array", run.memory)


def read(compiled: Compiled, run: Finished, given: Sequence[Any] | None = None) -> list[Any]:
    """The arguments in memory after a run, in the order of the parameters; trees in the form of the `given` arguments."""
    w, arguments, memory = compiled.format, compiled.lowered.arguments, words_of(run)
    found = [from_words(a.type, memory[a.address : a.address + a.type.size], w) for a in arguments]
    if given is not None:
        for i, a in enumerate(arguments):
            if has_trees(a.type):
                found[i] = restored(a.type, given[i], found[i])
    return found


def finished(
    compiled: Compiled,
    values: list[Any],
    *,
    backward: bool = False,
    overflow: bool = True,
    engine: str = "auto",
    max_steps: int | None = None,
    given: Mapping[int, int] = _NOTHING,
    explain: bool = True,
) -> Finished:
    """The run of the program on these arguments, and on the `given` words (address -> word), at its end.

    Where a machine has run the program by its translation, later runs need no machine (`WholeRuns`), unless they do not reach
    the end. Raises InputError, ProgramTrap; with `explain` False, Unexplained where the translation has found a trap.
    """
    key = "whole runs", backward, overflow
    whole = compiled.derived.get(key)
    words = _argument_words(compiled, values)
    if whole is not None:
        named = engine_named(engine)
        if named in _TRANSLATING:
            found: FinishedRun | None = whole(words, named, limit_of(max_steps), given)
            if found is not None:
                return found
            if whole.trapped and not explain:
                raise Unexplained
    machine: Machine
    if whole is not None and named in _TRANSLATING and whole.is_long:
        machine = whole.fresh_machine(named)
    else:
        machine = machine_for(compiled.emitted.program, engine, backward=backward, overflow=overflow)
    machine.load(0, words)
    for address, word in given.items():
        machine.load(address, (word,))
    execute(compiled, machine, max_steps)
    if whole is None and machine.engine == "translated" and not compiled.externals:
        from retrograd.simulator.engines.machines import WholeRuns

        compiled.derived[key] = WholeRuns(compiled.program, backward=backward, overflow=overflow)
    return machine


def machine_of(run: Finished) -> Machine:
    """The machine at the end of a run; made now, where the run needed none."""
    return run if isinstance(run, Machine) else run.machine()


def execute(
    compiled: Compiled,
    machine: Machine,
    max_steps: int | None = None,
    observe: Callable[[Machine, int], None] | None = None,
    *,
    externals: bool = True,
) -> None:
    """Run until the machine halts. Raises ProgramTrap.

    `observe` is called after every step, as by `Machine.run`. `externals`: whether `rg.external` blocks are executed.
    """
    try:
        if compiled.externals and externals:
            from retrograd.functions.externals import run_with_externals

            outcome = run_with_externals(compiled, machine, limit_of(max_steps), observe)
        else:
            outcome = machine.run(max_steps, observe=observe)
    except Trap as trap:
        raise ProgramTrap(explain(compiled, machine, trap), machine, trap) from None
    if outcome.stop is not Stop.HALTED:
        source = compiled.program.source
        span = source.span(machine.pc)
        diagnostic = Diagnostic("RG0420", f"stopped by the limit of {max_steps} steps", span, line=source.line(span))
        raise ProgramTrap(diagnostic, machine, None)
