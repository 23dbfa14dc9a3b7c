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
from retrograd.compiler.language.values import FormType
from retrograd.compiler.pipeline import Argument
from retrograd.derivatives._arguments import (
    ArgumentPart,
    Reals,
    Scale,
    Which,
    all_fixed,
    by_sizes,
    chosen_parts,
    differentiable,
    direction_of,
    first_number,
    flattened,
    from_words,
    is_one,
    logarithms,
    loss_part,
    need_derivative,
    not_inputs,
    refuse,
    report_losses,
    scales_of,
    shaped,
    sizes,
    to_words,
    without_derivative,
)
from retrograd.derivatives._programs import (
    COTANGENT_HINT,
    DerivedProgram,
    derivative_trap,
    derivative_traps,
    execute_externals,
    gradient_program,
    kept,
    loss_gradient_program,
)
from retrograd.isa.diagnostics import api_boundary, nearest
from retrograd.isa.words import Format
from retrograd.runtime._arrays import RealKind, real_of
from retrograd.runtime._binding import form_of, has_trees, named_tuple, restored
from retrograd.runtime._execution import Finished, ProgramTrap, Request, execute, read, words_of
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


# -----------------------------------------------------------------------------
# Cotangents of all results: `vjp`.
#
# pullback(ȳ) = Jᵀȳ:  the gradient program P; lift(P⁻¹) runs on x and ȳ, and leaves x̄ beside x


def vjp(
    f: Reversible | Inverse,
    /,
    *args: Any,
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
    **keywords: Any,
) -> tuple[Any, Pullback]:
    """(values, pullback): values as f(*args) gives them, pullback(ȳ) = Jᵀȳ, J the Jacobian of all values by all arguments.

    ȳ are cotangents ∂L/∂value: a mapping by name, or a sequence with one for each argument; None, and a name that the
    mapping leaves out, is zero. A struct's is a struct, or a mapping of its fields; that of a complex number may be Python's,
    ∂L/∂re + i·∂L/∂im. pullback returns the cotangents of all arguments that have a derivative, by name, each of
    the form of its argument. It may be called again; each call runs forward and back once,
    from the arguments as they were.
    f may be an inverse, `~f`; `scale` as in `grad`; `engine`, `format`, `precision`: see `run`. Raises NotDifferentiable, CompileError, ProgramTrap.
    Trap: an argument that f leaves alone is a result too, and its cotangent adds to the cotangent that comes back for it.
    """
    request = differentiable(f, engine, format, precision)
    values = request.values(args, keywords)
    compiled = request.compiled(values)
    machine = request.machine(compiled, values)
    execute(compiled, machine, None)
    results = request.function.results(*read(compiled, machine, values))
    return results, Pullback(f, request, compiled, values, machine.memory[:], scale)


def pullback_alone(
    f: Reversible | Inverse,
    args: Sequence[Any],
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
) -> Pullback:
    """The pullback of `vjp` at arguments at which f has run already. f runs again only where cotangents depend on its results, and for its `rg.external` blocks."""
    request = differentiable(f, engine, format, precision)
    values = request.values(tuple(args), {})
    compiled = request.compiled(values)
    final = [0] * compiled.argument_words
    if compiled.externals or any(isinstance(a.type, FormType) or not all_fixed(a.type) for a in compiled.arguments):
        machine = request.machine(compiled, values)
        execute(compiled, machine, None)
        final = machine.memory[:]
    return Pullback(f, request, compiled, values, final, scale)


class Pullback:
    """ȳ → Jᵀȳ at some arguments: see `vjp`."""

    def __init__(
        self,
        f: Reversible | Inverse,
        request: Request,
        compiled: Compiled,
        values: list[Any],
        final: list[int],
        scale: Scale,
    ) -> None:
        self._f, self._request, self._compiled = f, request, compiled
        #: with their words, which are made; and the trees among them, which the caller may change
        self._values = values
        self._forms = [form_of(v) if has_trees(a.type) else v for a, v in zip(compiled.arguments, values, strict=True)]
        #: memory after the run: a cotangent of a lognum is scaled by its value there
        self._final = final
        self._scale = scale
        #: the arguments, results with the form that they have
        self._arguments = [_filled(a, final) for a in compiled.arguments]

    @api_boundary
    def __call__(self, cotangents: Any) -> Any:
        compiled, backward = self._compiled, self._request.backward
        # A function of ints has values, and is refused here only: the functions of `adapters` call it.
        wanted = choose(self._f, self._arguments, None, None)
        program, w = pullback_program(compiled, backward), compiled.format
        pairs = [(a, self._flat(a, value)) for a, value in by_argument(self._f, self._arguments, cotangents)]

        def seeds(scale: int) -> dict[int, int]:
            given: dict[int, int] = {}
            for a, flat in pairs:
                size = sizes(a.type, self._final[a.address : a.address + a.type.size], w)
                words = to_words(flat, size, scale, w, a.name)
                given |= {a.address + program.cotangents + i: word for i, word in enumerate(words) if word}
            return given

        with derivative_traps(compiled, self._values, backward, *_overflow(w)):
            ran, scale = program.run_scaled(scales_of(self._scale, w), self._values, seeds, self._request.engine)
        memory = ran.memory[:]
        report_losses(compiled, pairs, scale, "cotangent")

        def gradient(a: Argument) -> Any:
            at = a.address + program.cotangents
            size = sizes(a.type, memory[a.address : a.address + a.type.size], w)
            return shaped(a.type, from_words(memory[at : at + a.type.size], size, scale, w))

        gradients = {a.name: gradient(a) for a in wanted}
        return by_choice(None, restored_by_name(compiled.arguments, self._forms, gradients))

    def _flat(self, a: Argument, value: Any) -> Reals:
        """A given cotangent, flat. Raises NotDifferentiable."""
        need_derivative(self._f, a.name, a.type)
        return flattened(a.type, value, a.name)

    def __repr__(self) -> str:
        return f"<pullback of {self._f.__name__}>"


def _filled(a: Argument, final: Sequence[int]) -> Argument:
    """An argument with the type that it has after the run."""
    if not isinstance(a.type, FormType) or a.type.form is not None:
        return a
    return replace(a, type=a.type.filled(final[a.address : a.address + a.type.size]))


def pullback_program(compiled: Compiled, backward: bool, copies: int = 1) -> DerivedProgram:
    """The gradient program (x, ȳ) -> (x, x̄) of a compiled function, made once. `copies`: see `gradient_program`."""
    return kept(compiled, ("gradient", backward, copies), lambda: gradient_program(compiled, backward, copies))


def pulled_back(request: Request, compiled: Compiled, values: list[Any], given: Mapping[int, int]) -> list[int]:
    """The memory after the gradient program has run from these cotangents, address -> word. Raises ProgramTrap."""
    with derivative_traps(compiled, values, request.backward, *_overflow(compiled.format)):
        return pullback_program(compiled, request.backward).run(values, given, request.engine).memory[:]


def _overflow(w: Format) -> tuple[str, str]:
    """The message and the fix of a cotangent that does not fit."""
    return f"running back, cotangent overflow in {w}", COTANGENT_HINT


def by_argument(
    f: Reversible | Inverse, arguments: Sequence[Argument], cotangents: Any, what: str = "cotangent"
) -> list[tuple[Argument, Any]]:
    """The given cotangents with their arguments; `what`: their name in messages.

    A sequence has one for each argument. For a functional function it may have one tangent for each argument of the
    call, or one cotangent for each result.
    """
    names = [a.name for a in arguments]
    listed = f"the arguments of `{f.__name__}` are {', '.join(names)}"
    if hasattr(cotangents, "_asdict") and len(cotangents) != len(names):
        cotangents = cotangents._asdict()  # such as the result of a pullback, which has no integers
    if isinstance(cotangents, Mapping):
        for name in cotangents:
            if name not in names:
                near = nearest(str(name), names)
                hint = f"{near}; {listed}" if near else listed
                refuse(f"`{f.__name__}` has no argument {name!r:.40}, and no {what} of it", hint)
        pairs = [(a, cotangents[a.name]) for a in arguments if a.name in cotangents]
    elif isinstance(cotangents, Sequence) and not isinstance(cotangents, str | bytes):
        function, backward = direction_of(f)
        first = 0 if backward else function.first_result
        own = arguments[:first] if what == "tangent" else arguments[first:]
        if first and len(cotangents) == len(own):
            arguments = own
        elif len(cotangents) != len(names):
            counted = f"{len(cotangents)} {what}{'s are' if len(cotangents) != 1 else ' is'} given"
            refuse(f"{counted} for the {len(names)} arguments of `{f.__name__}`", f"write None for zero; {listed}")
        pairs = list(zip(arguments, cotangents, strict=True))
    else:
        found = type(cotangents).__name__
        refuse(f"{what}s are a mapping by name or a sequence by position, not of type {found}", listed)
    return [(a, value) for a, value in pairs if value is not None]
