"""Advice on memory: which calls of a functional function to forget, so that a run fits into a number of words at the least instructions.

    words of a run  =  the highest word of the heap and of the stack that the run writes, each counted from its beginning

Each choice is measured by a run of the program on the given arguments. Calls of further functions are forgotten one name after the other: of the names
that make the run fit, that with the fewest instructions, else that with the fewest words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from retrograd.compiler.compiled import Compiled, Options
from retrograd.compiler.frontends.functional.function import FunctionalSource
from retrograd.functions.execution import argument_words, execute
from retrograd.functions.reversible import Reversible
from retrograd.isa.diagnostics import CompileError, Diagnostic, InputError
from retrograd.presentation.tables import columns, shortened_text
from retrograd.simulator.machine import Machine
from retrograd.simulator.stores import limit_of
from retrograd.values.binding import bind, types_of


class _Written(list[int]):
    """Words of a memory, and the highest address below and from `border` on that was written."""

    border = 0
    low = high = -1

    def __setitem__(self, at: Any, word: Any) -> None:
        super().__setitem__(at, word)
        if isinstance(at, slice):
            return
        if at < self.border:
            self.low = max(self.low, at)
        else:
            self.high = max(self.high, at)


class _WatchedMachine(Machine):
    """The reference machine with a memory that keeps the highest addresses."""

    def _first_memory(self, size: int) -> list[int]:
        self.written = _Written(super()._first_memory(size))
        return self.written


@dataclass(frozen=True)
class Measured:
    """A run in which the calls of some functions are forgotten: words of heap and stack, and instructions."""

    names: frozenset[str]
    heap: int
    stack: int
    steps: int

    @property
    def words(self) -> int:
        return self.heap + self.stack

    def as_dict(self) -> dict[str, Any]:
        return {"forget": sorted(self.names), "heap": self.heap, "stack": self.stack, "instructions": self.steps}


def measured(compiled: Compiled, values: list[Any], max_steps: int | None = None) -> Measured:
    """The words and instructions of a run. Raises InputError, ProgramTrap."""
    heap = next((r for r in compiled.module.regions if r.name == "heap" and r.data is None), None)
    machine = _WatchedMachine(compiled.program)
    machine.load(0, argument_words(compiled, values))
    machine.written.border = compiled.module.memory
    begin = compiled.module.memory if heap is None or heap.address is None else heap.address
    execute(compiled, machine, max_steps)
    used = max(0, machine.written.low - begin + 1)
    deep = max(0, machine.written.high - compiled.module.memory + 1)
    return Measured(compiled.options.forget, used, deep, machine.retired)


@dataclass(frozen=True)
class ForgettingAdvice:
    """The calls to forget for a budget of words, and the runs that were measured: all kept, then each choice in turn."""

    function: Reversible
    budget: int
    trials: tuple[Measured, ...]
    chosen: Measured

    @property
    def fits(self) -> bool:
        """Whether the run as advised needs no more words than the budget."""
        return self.chosen.words <= self.budget

    @property
    def options(self) -> Options:
        return replace(self.function.options, forget=self.chosen.names)

    @property
    def advised(self) -> Reversible:
        """The function, compiled as advised."""
        return self.function.with_options(forget=self.chosen.names)

    def __repr__(self) -> str:
        return shortened_text(str(self))

    def __str__(self) -> str:
        rows = [["forgotten calls of", "heap", "stack", "words", "instructions", "advice"]]
        first = self.trials[0]
        for t in self.trials:
            advice = "within the budget" if t.words <= self.budget else "too many words"
            if t is self.chosen:
                advice = "chosen" if self.fits else "chosen: no choice has fewer words"
            elif t.words <= self.budget and t.steps > self.chosen.steps:
                advice = "more instructions"
            names = ", ".join(sorted(t.names)) or "(none)"
            rows.append([names, str(t.heap), str(t.stack), str(t.words), str(t.steps), advice])
        end = f"budget {self.budget} words; {self.chosen.steps / first.steps:.2f} times the instructions of the run that keeps all"
        table = columns(rows, right=(1, 2, 3, 4))
        return f"{self.function.__name__}: calls as compute, copy, uncompute\n{table}\n{end}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON: schema retrograd.forgetting-advice/1."""
        return {
            "schema": "retrograd.forgetting-advice/1",
            "name": self.function.__name__,
            "budget": self.budget,
            "fits": self.fits,
            "chosen": self.chosen.as_dict(),
            "trials": [t.as_dict() for t in self.trials],
        }


def advise_forgetting(
    f: Reversible, args: Sequence[Any], keywords: dict[str, Any], memory: int, max_steps: int | None = None
) -> ForgettingAdvice:
    """The calls of f to forget for a budget of words: see the module. Raises InputError for any but a functional function."""
    if not isinstance(f, FunctionalSource) or not isinstance(f, Reversible):
        hint = "`with_options(memory=…)` keeps results of loops; `memory=` of rg.advise forgets calls of @rg.functional functions."
        raise InputError(Diagnostic("RG0603", f"`{f.__name__}` is no functional function, and has no heap", hint=hint))
    budget = limit_of(memory, "memory")
    assert budget is not None
    values = bind(f, args, keywords)
    types = types_of(f, values)

    def run(names: frozenset[str]) -> Measured | None:
        try:
            compiled = f.compiled_for(types, None, replace(f.options, forget=names))
        except CompileError:
            # The value of such a call has no copy: it holds an array.
            return None if names else measured(f.compiled_for(types), values, max_steps)
        return measured(compiled, values, max_steps)

    chosen = run(frozenset())
    assert chosen is not None
    trials = [chosen]
    left = f.forgettable()
    while chosen.words > budget and left:
        found = [t for t in (run(chosen.names | {name}) for name in left) if t is not None]
        trials += found
        fitting = [t for t in found if t.words <= budget]
        best = min(fitting, key=lambda t: (t.steps, t.words), default=None)
        if best is None:
            best = min(found, key=lambda t: (t.words, t.steps), default=chosen)
            if best.words >= chosen.words:
                break
        chosen = best
        left = [name for name in left if name not in chosen.names]
    return ForgettingAdvice(f, budget, tuple(trials), chosen)
