"""The law of the inverse: (~f)(f(x)) == x, in every word of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from retrograd.isa.diagnostics import RetrogradError
from retrograd.runtime._execution import ProgramTrap
from retrograd.runtime._reversible import Inverse, Reversible
from retrograd.simulator.machine import Machine, Trap
from retrograd.simulator.stores import Store
from retrograd.testing.laws import Subject, differences, explained, nonzero, subject

#: the inverse may run long on arguments that f never reaches: its limit, in runs of f
_PATIENCE = 10


@dataclass(frozen=True)
class InverseReport:
    """A law that holds: `steps` of f, the `stops` after which it turned back, and whether `(~f)(x)` has a value."""

    steps: int
    erased_bits: int
    memory_words: int
    stops: tuple[int, ...]
    other_order: bool


def check_inverse(f: Reversible | Inverse, /, *args: Any, stops: int = 3, **keywords: Any) -> InverseReport:
    """(~f)(f(x)) == x, and f((~f)(x)) == x where ~f has a value at x; and back to x from `stops` points in the middle.

    Equal means every word of memory, not only those of the arguments, and all registers zero. Trap: two whole runs alone would not
    detect a wrong inverse of a function that is its own inverse, so the machine also turns in the middle.
    Raises LawBroken RG0901 naming the words that differ; ProgramTrap where f has no value at x, after the machine has run back
    from the trap to x; CompileError, InputError.
    """
    s = subject(f, args, keywords)
    machine = s.machine()
    before = list(machine.memory)
    _run_or_return(s, machine, before)
    after, steps = list(machine.memory), machine.retired
    there = f"after `{s.name}`"
    _compare(s, machine, after, there)

    back = s.machine_on(after, inverse=True)
    _run(s, back, f"`{s.inverse_name}` does not run where `{s.name}` has run")
    _compare(s, back, before, f"after `{s.name}` and then `{s.inverse_name}`")

    other = s.machine(inverse=True)
    reachable = True
    try:
        _run_or_return(s, other, before, _PATIENCE * steps + 1000)
    except ProgramTrap:
        reachable = False
    if reachable:
        again = s.machine_on(other.memory)
        _run(s, again, f"`{s.name}` does not run where `{s.inverse_name}` has run")
        _compare(s, again, before, f"after `{s.inverse_name}` and then `{s.name}`")

    # The middles of `stops` equal parts of the run.
    points = tuple(sorted({steps * (2 * i + 1) // (2 * stops) for i in range(stops)} - {0}))
    for point in points:
        turned = s.machine()
        turned.run(point)
        turned.turn()
        _run(s, turned, f"`{s.name}` does not run back from step {point}", plainly=True)
        _compare(s, turned, before, f"after {point} steps of `{s.name}` and then back")
        if point == points[-1]:
            turned.turn()
            _run(s, turned, f"`{s.name}` does not run again after step {point} and back", plainly=True)
            _compare(s, turned, after, f"after {point} steps of `{s.name}`, back, and forward to its end")
    return InverseReport(steps, machine.erased_bits, len(before), points, reachable)


def _run_or_return(s: Subject, machine: Machine, before: Store, max_steps: int | None = None) -> None:
    """Run to the end. After a trap, run back to the start and raise ProgramTrap."""
    try:
        s.run(machine, max_steps)
    except ProgramTrap as stopped:
        why = stopped.diagnostics[0].message
        try:
            machine.run_back()
        except Trap as trap:
            error = explained(s, machine, trap)
            s.broken("RG0901", f"`{s.name}` stopped ({why}), and does not run back from there", trap=error)
        _compare(s, machine, before, f"after `{s.name}` stopped ({why}) and ran back")
        raise


def _run(s: Subject, machine: Machine, message: str, *, plainly: bool = False) -> None:
    """Run to the end; a trap breaks the law. `plainly`: without `rg.external` blocks."""
    try:
        if plainly:
            machine.run()
        else:
            s.run(machine)
    except Trap as trap:
        s.broken("RG0901", message, trap=explained(s, machine, trap))
    except RetrogradError as error:
        s.broken("RG0901", message, trap=error)


def _compare(s: Subject, machine: Machine, expected: Store, when: str) -> None:
    wrong = differences(s.compiled, expected, machine.memory) + nonzero(machine.registers)
    if wrong:
        s.broken("RG0901", f"{when}: " + "; ".join(wrong))
