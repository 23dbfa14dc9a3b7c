"""Requests for gradients of one number, and the gradient programs that answer them.

    P; L̄ := 2^scale; lift(P⁻¹)          runs on x, and leaves ∂L/∂x beside x; of a lognum L it leaves ∂ln|L|/∂x = ∂L/∂x / L

Nothing is stored for the way back: P⁻¹ computes every operand again. The memory of a gradient is twice that of the program,
however long it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from retrograd.compiler.compiled import Compiled, Precision
from retrograd.compiler.language.types import FIXED, LOGNUM
from retrograd.compiler.pipeline import Argument
from retrograd.differentiation.arguments import (
    Which,
    all_fixed,
    by_sizes,
    differentiable,
    from_words,
    is_one,
    logarithms,
    need_derivative,
    not_inputs,
    refuse,
    shaped,
    sizes,
    without_derivative,
)
from retrograd.differentiation.parts import ArgumentPart, chosen_parts, first_number, loss_part
from retrograd.differentiation.programs import (
    COTANGENT_HINT,
    DerivedProgram,
    derivative_trap,
    execute_externals,
    kept,
    loss_gradient_program,
)
from retrograd.differentiation.scales import Scale, scales_of
from retrograd.isa.words import Format
from retrograd.runtime._arrays import RealKind, real_of
from retrograd.runtime._binding import has_trees, named_tuple, restored
from retrograd.runtime._execution import Finished, ProgramTrap, Request, words_of
from retrograd.runtime._reversible import Inverse, Reversible
from retrograd.simulator.machine import Machine

T = TypeVar("T")


class GradientRequest:
    """A request for ∂(the argument `loss`)/∂(the arguments `argnums`); with `value`, for the value of the loss too.

    Raises NotDifferentiable for arguments that the function does not have.
    """

    def __init__(
        self,
        f: Reversible | Inverse,
        argnums: Which,
        loss: int | str,
        scale: Scale,
        engine: str = "auto",
        format: Format | str | None = None,
        value: bool = False,
        precision: Precision | None = None,
    ) -> None:
        self.f = f
        argnums = deepcopy(argnums)  # the caller may change a list
        #: the arguments of the public function that made the request
        self.given = (f, argnums, loss), {"scale": scale, "engine": engine, "format": format, "precision": precision}
        self.run = differentiable(f, engine, format, precision)
        self.argnums, self.scale, self.value = argnums, scale, value
        self.chosen, self.part = chosen_parts(f, argnums), loss_part(f, loss)
        #: the position of the argument that holds the loss
        self.loss = self.part.position
        chosen = None if self.chosen is None else tuple(self.chosen)
        self._key = "loss gradient", self.run.backward, chosen, self.part, scale

    def plan(self, compiled: Compiled) -> GradientPlan:
        """The gradient program of a compiled function, made once. Raises NotDifferentiable."""
        return kept(compiled, self._key, lambda: self._plan(compiled))

    def _plan(self, compiled: Compiled) -> GradientPlan:
        loss = self.loss_of(compiled, logarithmic=True)
        wanted = choose(self.f, compiled.arguments, self.chosen, self.loss)
        scales = scales_of(self.scale, compiled.format)
        program = loss_gradient_program(compiled, self.run.backward, wanted, loss, scales[0])
        return GradientPlan(compiled, program, loss, scales, wanted)

    def loss_of(self, compiled: Compiled, logarithmic: bool = False) -> Argument:
        """The loss as an argument of its own, at its address. `logarithmic`: it may be a lognum. Raises NotDifferentiable."""
        return need_loss(self.f, self.part, compiled.arguments, logarithmic)

    def way_back(self, run: Request, values: Sequence[Any]) -> WayBack:
        """The way back of a machine in differentiation mode, without a gradient program; the scale `"auto"` is 0. Raises NotDifferentiable."""
        options = replace(run.options or run.function.options, cotangents=True)
        compiled = replace(run, options=options).compiled(values)
        need_automatic(compiled)
        loss = self.loss_of(compiled)
        scale = 0 if self.scale == "auto" else scales_of(self.scale, compiled.format)[0]
        return WayBack(compiled, loss, 1 << (compiled.format.frac + scale))

    def called(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """∂L/∂x, or (L, ∂L/∂x), at these arguments. Raises CompileError, InputError, ProgramTrap."""
        values = self.run.values(args, keywords)
        compiled = self.run.compiled(values)
        plan = self.plan(compiled)
        execute_externals(self.run, compiled, values)
        # No context manager: it would double the functions that a warm call passes here.
        try:
            machine, scale = plan.program.run_scaled(plan.scales, values, plan.program.seed, self.run.engine)
        except ProgramTrap as trap:
            message = f"running back, cotangent overflow in {compiled.format}"
            raise derivative_trap(trap, compiled, values, self.run.backward, message, COTANGENT_HINT) from None
        found = {a.name: plan.gradient(machine, a, scale) for a in plan.wanted}
        gradients = by_choice(self.argnums, restored_by_name(compiled.arguments, values, found))
        if not self.value:
            return gradients
        kind: RealKind = "lognum" if plan.is_logarithmic else "fixed"
        return real_of(machine.memory[plan.program.value], kind, compiled.format), gradients

    def filled(self, number: float, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A gradient at these arguments that holds this number everywhere."""
        values = self.run.values(args, keywords)
        compiled = self.run.compiled(values)
        found = {a.name: shaped(a.type, np.full(a.type.size, number)) for a in self.plan(compiled).wanted}
        return by_choice(self.argnums, restored_by_name(compiled.arguments, values, found))


@dataclass(frozen=True)
class GradientPlan:
    """The gradient program of a compiled function, and the arguments `wanted` by which it differentiates."""

    compiled: Compiled
    program: DerivedProgram
    loss: Argument
    #: the scales to try; the first is that of the program
    scales: tuple[int, ...]
    wanted: list[Argument]

    @property
    def is_logarithmic(self) -> bool:
        """Whether the loss is a lognum."""
        return self.loss.type == LOGNUM

    def scale_at(self, values: list[Any], engine: str = "auto") -> int:
        """The scale of the gradient at these arguments; the last of the scales where it overflows at all of them."""
        if len(self.scales) == 1:
            return self.scales[0]
        try:
            return self.program.run_scaled(self.scales, values, self.program.seed, engine)[1]
        except ProgramTrap:
            return self.scales[-1]

    def gradient(self, run: Finished, a: Argument, scale: int) -> Any:
        """∂L/∂(the argument) after a run at this scale, of the argument's form."""
        w = self.compiled.format
        address = a.address + self.program.cotangents
        if self.is_logarithmic:
            memory = words_of(run)
            inside = from_words(memory[address : address + a.type.size], None, scale, w)
            value = logarithms(LOGNUM, [memory[self.program.value]], w)
            inputs = logarithms(a.type, memory[a.address : a.address + a.type.size], w)
            return shaped(a.type, by_sizes(inside, value, inputs))
        if a.type == FIXED:
            return w.signed(run.memory[address]) / (1 << (w.frac + scale))
        memory = words_of(run)
        words = memory[address : address + a.type.size]
        size = None if all_fixed(a.type) else sizes(a.type, memory[a.address : a.address + a.type.size], w)
        return shaped(a.type, from_words(words, size, scale, w))


@dataclass(frozen=True)
class WayBack:
    """The way back of a machine: D = 1, the cotangent of the loss is `one`, all others are 0, and the machine is turned."""

    compiled: Compiled
    loss: Argument
    one: int

    def begin(self, machine: Machine) -> None:
        """Turn a machine that stands at the end of the run."""
        machine.differentiating = True
        machine.clear_cotangents()
        machine.memory_cotangents[self.loss.address] = self.one
        machine.turn()


def need_automatic(compiled: Compiled) -> None:
    """Raise NotDifferentiable where a function has an adjoint of the user's: differentiation mode is that of its instructions."""
    own = next((p for p in compiled.module.procedures.values() if p.adjoint is not None), None)
    if own is not None:
        message = f"`{own.name}` has an adjoint of its own, which differentiation mode of the machine does not run"
        refuse(message, "rg.grad runs it, in a gradient program")


def need_loss(
    f: Reversible | Inverse, part: ArgumentPart, arguments: Sequence[Argument], logarithmic: bool = False
) -> Argument:
    """The part of an argument. Raises NotDifferentiable unless it is one fixed number, or one lognum where that is allowed."""
    a = part.of(f, arguments)
    if a.type == FIXED or (logarithmic and a.type == LOGNUM):
        return a
    if a.type == LOGNUM:
        message = f"the loss `{a.name}` of `{f.__name__}` is lognum, of which rg.grad, rg.value_and_grad and rg.jacobian are taken"
        refuse(message, fixed_loss_hint(a.name))
    hint = "a loss is one fixed number"
    example = first_number(a)
    if example is not None:
        hint += f", such as {example!r}"
    if without_derivative(a.type) is None:
        hint += "; rg.jacobian differentiates arrays, structs and lognums, rg.vjp takes cotangents of all results"
    refuse(f"the loss `{a.name}` of `{f.__name__}` is {a.type}", hint)


def fixed_loss_hint(name: str) -> str:
    """The way out where a loss is a lognum and must be a fixed number."""
    return f"add it to a fixed, `loss += fixed({name})`, or its logarithm, `loss += rg.log({name})`"


def choose(
    f: Reversible | Inverse, arguments: Sequence[Argument], chosen: Sequence[ArgumentPart] | None, left_out: int | None
) -> list[Argument]:
    """The chosen parts of the arguments; for None, all that have a derivative except `not_inputs` of `left_out`.

    Raises NotDifferentiable for a part without derivative, and where no argument has one.
    """
    if chosen is None:
        others = () if left_out is None else not_inputs(f, (left_out,))
        return need_some(
            f, [a for i, a in enumerate(arguments) if i not in others and without_derivative(a.type) is None]
        )
    found = [part.of(f, arguments) for part in chosen]
    for a in found:
        need_derivative(f, a.name, a.type)
    return found


def need_some(f: Reversible | Inverse, wanted: list[T]) -> list[T]:
    """The arguments to differentiate by. Raises NotDifferentiable where there are none."""
    if not wanted:
        hint = "A derivative is by arguments of fixed or lognum, and structs and arrays that hold some."
        refuse(f"`{f.__name__}` has no argument to differentiate by", hint)
    return wanted


def restored_by_name(arguments: Sequence[Argument], given: Sequence[Any], found: dict[str, Any]) -> dict[str, Any]:
    """Derivatives by the names of arguments, in the forms of the given arguments."""
    for a, value in zip(arguments, given, strict=True):
        if a.name in found and has_trees(a.type):
            found[a.name] = restored(a.type, value, found[a.name])
    return found


def by_choice(argnums: Which, found: Mapping[str, Any]) -> Any:
    """The values in the form that `argnums` determines: one by itself, several as a tuple, all by name."""
    if argnums is None:
        return named_tuple("Gradients", tuple(found))(*found.values())
    return next(iter(found.values())) if is_one(argnums) else tuple(found.values())
