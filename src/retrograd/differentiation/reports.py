"""`gradient_report`: a gradient in differentiation mode, and its cost.

    forward, D = 0;  L̄ := 2^scale;  back to `start`, D = 1;  the inputs' cotangents are ∂L/∂input

This is the run of the machine and of the co-processor. Its way back is that of the same program, with a test where an active
variable is freed, so that its cotangent is dropped there as in gradient programs. Both give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from retrograd.compiler.compiled import Compiled, Precision
from retrograd.differentiation.arguments import Which, from_words, shaped, sizes
from retrograd.differentiation.gradient_requests import (
    GradientRequest,
    by_choice,
    choose,
    need_automatic,
    restored_by_name,
)
from retrograd.differentiation.programs import COTANGENT_HINT
from retrograd.differentiation.scales import Scale
from retrograd.isa.diagnostics import Diagnostic
from retrograd.isa.words import Format
from retrograd.runtime._arrays import real_of
from retrograd.runtime._execution import ProgramTrap, execute, load
from retrograd.runtime._reversible import Derived, Inverse, Reversible
from retrograd.runtime._traps import explain
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.engines.tiering import engine_named
from retrograd.simulator.machine import Machine, Trap
from retrograd.simulator.stores import Store


class _Watched(list[int]):
    """Memory that records the highest address written: the extent of the stack of calls."""

    highest = -1

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, int) and index > self.highest:
            self.highest = index
        super().__setitem__(index, value)


@dataclass(frozen=True)
class GradientReport:
    """A gradient, and its cost in differentiation mode."""

    #: the loss
    value: float
    #: in the form of `grad`
    gradients: Any
    forward_steps: int
    backward_steps: int
    #: the largest number of words of memory in use, the stack of calls included; beside each lies a cotangent
    memory_words: int
    #: bits of cotangents that were not zero where their ancillas were freed
    dropped_bits: int
    #: whether, back at the start, every word of the arguments was as loaded
    inputs_restored: bool
    #: the way back began with the loss's cotangent at 2^scale
    scale: int = 0

    @property
    def ratio(self) -> float:
        """Steps back over steps forward."""
        return self.backward_steps / self.forward_steps


def gradient_report(
    f: Reversible | Inverse,
    argnums: Which = None,
    loss: int | str = 0,
    *,
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
) -> Callable[..., GradientReport]:
    """g(*args) = a GradientReport of ∂L/∂args: see `grad`.

    It runs in differentiation mode, as the co-processor does, since it reports the steps and the dropped bits of that mode; the
    gradient is that of `grad`, bit for bit. `engine`: "auto" stands for the reference machine, the only one that measures the
    extent of the stack.
    """
    requested = GradientRequest(f, argnums, loss, scale, engine, format, precision=precision)
    made = gradient_report, *requested.given
    return Derived("gradient_report", f, lambda args, keywords: _report(requested, args, keywords), made)


def _report(requested: GradientRequest, args: tuple[Any, ...], keywords: dict[str, Any]) -> GradientReport:
    run = requested.run
    engine = "reference" if engine_named(run.engine) == "auto" else run.engine
    values = run.values(args, keywords)
    plain = run.compiled(values)
    need_automatic(plain)
    loss = requested.loss_of(plain)
    wanted = choose(requested.f, plain.arguments, requested.chosen, requested.loss)
    compiled = run.function.compiled_for(
        tuple(a.type for a in plain.arguments), run.format, replace(plain.options, cotangents=True)
    )
    size = plain.argument_words

    there = _watched(load(plain, values, backward=run.backward, engine=engine))
    initial = there.memory[:size]
    execute(plain, there)
    value = real_of(there.memory[loss.address], "fixed", plain.format)

    plan = requested.plan(plain)

    def returned_at(scale: int) -> _Returned:
        back = _watched(machine_for(compiled.program, engine, backward=not run.backward))
        back.load(0, there.memory[: plain.module.memory])
        back.differentiating = True
        seed = loss.address, 1 << (plain.format.frac + scale)
        back.memory_cotangents[seed[0]] = seed[1]
        reached = partial(_reached, back._memory)
        try:
            back.run()
            cotangents, restored = back.memory_cotangents[:size], back.memory[:size] == initial
            return _Returned(scale, cotangents, restored, back.retired, back.dropped_bits, reached())
        except Trap as trap:
            # A machine has cotangents of constants and of all arguments, too. In a long loop they may outgrow the word, and at a kink
            # there may be none. The gradient program has the requested cotangents alone.
            program = plan.program
            try:
                if trap.code not in ("RG0404", "RG0413"):
                    raise trap
                ran, _ = program.run_scaled((scale,), values, program.seed, engine)
            except (Trap, ProgramTrap):
                raise ProgramTrap(explained(compiled, back, trap), back, trap) from None
            cotangents = ran.memory[program.cotangents : program.cotangents + size]
            restored, steps = ran.memory[:size] == initial, ran.retired - there.retired
            return _Returned(scale, cotangents, restored, steps, ran.erased_bits, reached())

    returned = returned_at(plan.scale_at(values, run.engine))
    scale, cotangents = returned.scale, returned.cotangents

    def gradient(address: int, n: int, t: Any) -> Any:
        words = slice(address, address + n)
        return shaped(t, from_words(cotangents[words], sizes(t, initial[words], plain.format), scale, plain.format))

    gradients = {a.name: gradient(a.address, a.type.size, a.type) for a in wanted}
    found = by_choice(requested.argnums, restored_by_name(plain.arguments, values, gradients))
    memory = max(compiled.module.memory, _reached(there._memory), returned.reached)
    return GradientReport(
        value, found, there.retired, returned.steps, memory, returned.dropped_bits, returned.restored, scale
    )


class _Returned(NamedTuple):
    """The way back at a scale."""

    scale: int
    cotangents: list[int]
    restored: bool
    steps: int
    dropped_bits: int
    #: the end of the memory that was written
    reached: int


def explained(compiled: Compiled, machine: Machine, trap: Trap) -> Diagnostic:
    """The diagnostic of a trap on the way back: of a cotangent, or of the function's own numbers."""
    d = explain(compiled, machine, trap)
    plain = trap.diagnostics[0].message.partition(" (at pc")[0]
    if "cotangent" not in plain:
        return d
    hint = COTANGENT_HINT if trap.code == "RG0404" else None
    return replace(d, code=trap.code, message=f"running back, {plain}", hint=hint)


def _watched(machine: Machine) -> Machine:
    """The machine, with the extent of its memory recorded where it is a list."""
    if type(machine) is Machine:
        machine._memory = _Watched(machine._memory)
    return machine


def _reached(memory: Store) -> int:
    """The words from the first to the last that was written, where that is recorded."""
    return memory.highest + 1 if isinstance(memory, _Watched) else 0
