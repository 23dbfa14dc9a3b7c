"""Derived programs (gradient programs, tangent programs), then the requests that they answer: gradients of one number, and `vjp`.

    P; L̄ := 2^scale; lift(P⁻¹)          runs on x, and leaves ∂L/∂x beside x; of a lognum L it leaves ∂ln|L|/∂x = ∂L/∂x / L

Nothing is stored for the way back: P⁻¹ computes every operand again. The memory of a gradient is twice that of the
program, however long it runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled, Precision, emit_optimised, faults_reported, real_regions
from retrograd.compiler.deep_recursion import with_deep_stack
from retrograd.compiler.derivatives.gradients import Differentiated, dual, gradient
from retrograd.compiler.ir.statements import Module
from retrograd.compiler.language.types import FIXED, LOGNUM, ScalarType, has_points
from retrograd.compiler.language.values import FormType
from retrograd.compiler.pipeline import Argument
from retrograd.derivatives._arguments import (
    OVERFLOW,
    Reals,
    all_fixed,
    by_sizes,
    differentiable,
    direction_of,
    first_number,
    flattened,
    from_words,
    given_function,
    is_one,
    logarithms,
    need_derivative,
    not_inputs,
    overflows,
    part_of,
    refuse,
    report_losses,
    scales_of,
    shaped,
    sizes,
    to_words,
    unit,
    without_derivative,
)
from retrograd.isa.diagnostics import InputError, api_boundary, nearest
from retrograd.isa.words import Format
from retrograd.runtime._arrays import RealKind, real_of
from retrograd.runtime._batch_arguments import Loaded
from retrograd.runtime._batch_runs import BatchWords, Numbers, run_distributed
from retrograd.runtime._binding import form_of, has_trees, named_tuple, restored
from retrograd.runtime._execution import (
    Finished,
    ProgramTrap,
    Request,
    Scale,
    Unexplained,
    Which,
    execute,
    finished,
    load,
    numbers_there,
    read,
    words_of,
)
from retrograd.runtime._reversible import Inverse, Reversible
from retrograd.runtime._traps import explain
from retrograd.simulator.engines.batch.layout import Range
from retrograd.simulator.machine import Machine, Trap

# -----------------------------------------------------------------------------
# Derived programs: the compiler's transformations, applied to a compiled function.
#
#     tangent program    (x, ẋ) -> (y, ẏ)                 runs forward
# gradient program (x, ȳ) -> (x, x̄) runs forward and back: P; L̄ += 1; lift(P⁻¹); back only where P accumulates
#     second order       tangents of the gradient program: (x, ẋ) -> (L, ∂L/∂x, H ẋ)
#
# These programs need no differentiation mode, so every engine runs them, batches included. Differentiation mode of the
# machine and of
# the co-processor gives the same bits; tests compare the two.
#
# Trap: a derivative may not fit in a word where all numbers of the function do. `derivative_trap` distinguishes the
# two cases.

T = TypeVar("T")
#: shadows of a word that run beside one another, and instructions of a program up to which there are several: lanes
#: take no longer one
COPIES, LONGEST = 4, 3000


#: the instructions that a conditional program may execute
_LIMIT = 1 << 28


@dataclass
class DerivedProgram:
    """A derived program. Offsets lead from an argument's address to its tangents, to its cotangents, and from those to theirs.

    Without a forward sweep a program is conditional: where it traps, or takes too long, the program that `complete`
    makes is run in its place.
    """

    compiled: Compiled
    tangents: int
    cotangents: int = 0
    #: the address of the loss's value
    value: int = 0
    #: makes the same program with a forward sweep; None where `compiled` has one
    complete: Callable[[], Compiled] | None = None
    #: the address of the cotangent of the loss, to which the program adds 2^scale
    loss: int = 0
    scale: int = 0

    def seed(self, scale: int) -> dict[int, int]:
        """The words, by address, by which the cotangent of the loss begins as 2^scale."""
        if scale == self.scale:
            return {}
        w = self.compiled.format
        return {self.loss: ((1 << w.frac + scale) - (1 << w.frac + self.scale)) & w.mask}

    def run(self, values: list[Any], given: Mapping[int, int], engine: str = "auto") -> Finished:
        """The run from these arguments and words (address -> word).

        Raises InputError, ProgramTrap. `rg.external` blocks are not executed.
        """
        return self.run_scaled((0,), values, lambda _: given, engine)[0]

    def run_scaled(
        self, scales: Sequence[int], values: list[Any], given: Callable[[int], Mapping[int, int]], engine: str = "auto"
    ) -> tuple[Finished, int]:
        """(the run from these arguments and the words given(k), k) for the first of the scales at which nothing overflows: see `at_scale`.

        A conditional program is tried at all scales before the program in its place: it has the same cotangents, and
        its other words do not depend on the scale.
        """
        limit = None if self.complete is None else _LIMIT
        for k in scales:
            last = k == scales[-1]
            # Not by `at_scale`: a warm call passes few functions.
            try:
                return finished(self.compiled, values, engine=engine, max_steps=limit, given=given(k), explain=last), k
            except (Unexplained, ProgramTrap, InputError) as error:
                if not last and overflows(error):
                    continue
                if self.complete is None or not isinstance(error, ProgramTrap):
                    raise
                break
        whole = self._whole()
        ran = whole.run_scaled(scales, values, given, engine)
        self._prefer(whole)
        return ran

    def run_rows(self, request: Request, loaded: Loaded, kept: Sequence[Range], explain: bool = True) -> BatchWords:
        """A batch of these runs: see `retrograd.runtime._batch_runs.run_distributed`."""
        return self.run_rows_scaled(
            request, (0,), loaded, lambda _: {}, lambda _: {}, kept, (), (), explain=explain
        ).rows

    def run_rows_scaled(
        self,
        request: Request,
        scales: Sequence[int],
        loaded: Loaded,
        seed: Callable[[int], Mapping[int, int]],
        numbers: Callable[[int], Mapping[Range, Numbers]],
        kept: Sequence[Range],
        totals: Sequence[Range],
        summed: Sequence[Range],
        explain: bool = True,
    ) -> ScaledRows:
        """The rows, with the words seed(k), each for the first of the scales k at which it does not overflow.

        Rows that fail are run again, together, at the next scale. `numbers(k)`: see
        `retrograd.runtime._batch_runs.run_rows`. The sums are of the ranges `totals`, which no scale multiplies, and
        then of `summed`, at the first scale: Σᵢ wordᵢ·2^(first − kᵢ), exactly.
        """
        whole_is_left = self.complete is not None
        limited = request.derived(_LIMIT if whole_is_left else None)
        apart, found, at = sum(n for _, n in totals), None, np.zeros(0, dtype=np.int64)
        left: list[int] = []
        for k in scales:
            rows = (loaded if found is None else loaded.at(left)).with_words(seed(k))
            part = run_distributed(
                limited, self.compiled, rows, kept, [*totals, *summed],
                numbers=numbers(k), explain=explain and k == scales[-1] and not whole_is_left,
            )  # fmt: skip
            if found is None:
                found, at = part, np.full(len(loaded), k)
            else:
                part.sums[apart:] = [total << scales[0] - k for total in part.sums[apart:]]
                found.replace_rows(left, part)
                at[left] = k
            if not found.failed and not found.traps:
                return ScaledRows(found, at)
            left = sorted({*found.failed, *(i for i, trap in found.traps.items() if trap.code in OVERFLOW)})
            if not left:
                break
        assert found is not None
        failed = sorted({*found.failed, *found.traps})
        if failed and whole_is_left:
            whole = self._whole()
            ran = whole.run_rows_scaled(
                request, scales, loaded.at(failed), seed, numbers, kept, totals, summed, explain
            )
            found.replace_rows(failed, ran.rows)
            at[failed] = ran.scales
            if 2 * (len(failed) - len({*ran.rows.failed, *ran.rows.traps})) > len(at):
                self._prefer(whole)
        return ScaledRows(found, at)

    def _whole(self) -> DerivedProgram:
        """The program with a forward sweep."""
        assert self.complete is not None
        return replace(self, compiled=self.complete(), complete=None)

    def _prefer(self, whole: DerivedProgram) -> None:
        """Run the program with a forward sweep from now on: a condition that fails once is likely to fail again."""
        self.compiled, self.complete = whole.compiled, None


@dataclass
class ScaledRows:
    """The results of a batch, and the scale of each element."""

    rows: BatchWords
    scales: NDArray[np.int64]


def ended(compiled: Compiled, machine: Machine) -> Machine:
    """The machine, run to its end; `rg.external` blocks are not executed. Raises ProgramTrap."""
    try:
        machine.run()
    except Trap as trap:
        raise ProgramTrap(explain(compiled, machine, trap), machine, trap) from None
    return machine


def execute_externals(request: Request, compiled: Compiled, values: list[Any]) -> None:
    """Execute the `rg.external` blocks of a function, if it has any, by a run of the function itself.

    Raises ProgramTrap.
    """
    if compiled.externals:
        execute(compiled, request.machine(compiled, values), request.max_steps)


def derivative_trap(
    trap: ProgramTrap, compiled: Compiled, values: list[Any], backward: bool, message: str, hint: str
) -> ProgramTrap:
    """The trap of a derived program, with `message` and `hint` where a derivative does not fit in a word.

    Raises ProgramTrap where the function itself traps on these arguments.
    """
    ended(compiled, load(compiled, values, backward=backward))
    d = trap.diagnostics[0]
    if d.code != "RG0404":
        return trap
    return ProgramTrap(replace(d, message=message, hint=hint), trap.machine, trap.trap)


@contextmanager
def derivative_traps(
    compiled: Compiled, values: list[Any], backward: bool, message: str, hint: str
) -> Generator[None, None, None]:
    """Traps of derived programs, as `derivative_trap` explains them."""
    try:
        yield
    except ProgramTrap as trap:
        raise derivative_trap(trap, compiled, values, backward, message, hint) from None


COTANGENT_HINT = "Take a smaller `scale`, scale the loss, or use a format with more bits before the point."


def kept(compiled: Compiled, key: tuple[Any, ...], make: Callable[[], T]) -> T:
    """The object that was made for a compiled function under this key, made once."""
    found = compiled.derived.get(key)
    if found is None:
        found = compiled.derived[key] = with_deep_stack(make)
    made: T = found
    return made


def gradient_program(compiled: Compiled, backward: bool, copies: int = 1) -> DerivedProgram:
    """(x, ȳ) -> (x, x̄) for all arguments; with `backward`, of the inverse. `copies`: of ȳ and x̄, beside one x."""
    regions = real_regions(compiled.lowered)
    module = _oriented(compiled, backward)
    return _gradient(compiled, lambda forward: gradient(module, regions, regions, forward=forward, copies=copies))


def loss_gradient_program(
    compiled: Compiled, backward: bool, wanted: Sequence[Argument], loss: Argument, scale: int
) -> DerivedProgram:
    """x -> (x, ∂L/∂x of the arguments `wanted`, L): the cotangent of the loss begins as 2^scale, or otherwise by `DerivedProgram.seed`."""
    inputs = real_regions(compiled.lowered, [_argument_of(a) for a in wanted])
    outputs = real_regions(compiled.lowered, [_argument_of(loss)])
    module = _oriented(compiled, backward)
    found = _gradient(
        compiled,
        lambda forward: gradient(module, inputs, outputs, loss=loss.address, scale=scale, forward=forward),
    )
    return replace(found, loss=loss.address + found.cotangents, scale=scale)


def most_copies(program: Callable[[int], DerivedProgram], wanted: int) -> tuple[DerivedProgram, int]:
    """(program(k), k): k shadows of each word, at most COPIES or as many as are wanted, and fewer where the program becomes too long."""
    copies = min(COPIES, max(1, wanted))
    while True:
        found = program(copies)
        if copies == 1 or len(found.compiled.program.code) <= LONGEST:
            return found, copies
        copies //= 2


def tangent_program(compiled: Compiled, backward: bool) -> DerivedProgram:
    """(x, ẋ) -> (y, ẏ) for all arguments; with `backward`, of the inverse."""
    regions = real_regions(compiled.lowered)
    made = dual(_oriented(compiled, backward), regions, regions)
    return DerivedProgram(_emitted(compiled, made), made.offset)


def second_order_program(
    compiled: Compiled, backward: bool, wanted: Sequence[Argument], loss: Argument, scale: int, copies: int = 1
) -> DerivedProgram:
    """(x, ẋ) -> (L, ∂L/∂x, ∂²L/∂x² ẋ) for the arguments `wanted`: forward over adjoint.

    `copies`: of ẋ, beside one x.
    """
    module = _oriented(compiled, backward)
    inputs = real_regions(compiled.lowered, [_argument_of(a) for a in wanted])
    outputs = real_regions(compiled.lowered, [_argument_of(loss)])

    def made(forward: bool) -> tuple[Differentiated, Differentiated]:
        first = gradient(module, inputs, outputs, loss=loss.address, scale=scale, forward=forward)
        reached = {r.address + first.offset for r in inputs if r.address is not None}
        cotangents = [r for r in first.module.regions if r.address in reached]
        second = dual(first.module, inputs, cotangents, restoring=first.restoring, copies=copies)
        return first, replace(second, results=first.results)

    first, second = made(False)
    complete = cache(lambda: _emitted(compiled, made(True)[1].without_uncomputation())) if first.conditional else None
    return DerivedProgram(
        _emitted(compiled, second.without_uncomputation()), second.offset, first.offset, first.value or 0, complete,
        loss.address + first.offset, scale,
    )  # fmt: skip


def _argument_of(part: Argument) -> str:
    """The name of the argument that a part belongs to."""
    return re.split(r"[.\[]", part.name, maxsplit=1)[0]


def _gradient(compiled: Compiled, make: Callable[[bool], Differentiated]) -> DerivedProgram:
    """The gradient program that `make(forward)` gives, without a forward sweep where that is possible."""
    made = make(False)
    complete = cache(lambda: _emitted(compiled, make(True).without_uncomputation())) if made.conditional else None
    return DerivedProgram(_emitted(compiled, made.without_uncomputation()), 0, made.offset, made.value or 0, complete)


def _oriented(compiled: Compiled, backward: bool) -> Module:
    return ~compiled.module if backward else compiled.module


def _emitted(compiled: Compiled, derived: Differentiated) -> Compiled:
    # A derived program may pass the marks of `rg.external` blocks several times: see `execute_externals`.
    with faults_reported(compiled.function):
        emitted = replace(emit_optimised(derived.module, compiled.options.level, derived=True), externals={})
    return replace(compiled, module=derived.module, emitted=emitted)


# -----------------------------------------------------------------------------
# Requests for gradients of one number, and the gradient programs that answer them.


def plan_of(request: Request, compiled: Compiled) -> GradientPlan:
    """The gradient program of a compiled function, made once. Raises NotDifferentiable."""
    key = "loss gradient", request.backward, request.chosen, request.loss, request.scale
    return kept(compiled, key, lambda: _plan(request, compiled))


def _plan(request: Request, compiled: Compiled) -> GradientPlan:
    loss = loss_of(request, compiled, logarithmic=True)
    wanted = wanted_of(request, compiled.arguments)
    scales = scales_of(request.scale, compiled)
    program = loss_gradient_program(compiled, request.backward, wanted, loss, scales[0])
    return GradientPlan(compiled, program, loss, scales, wanted, unit(loss.type, compiled.format))


def loss_of(request: Request, compiled: Compiled, logarithmic: bool = False) -> Argument:
    """The loss as an argument of its own, at its address.

    Raises NotDifferentiable unless it is one fixed number, or one lognum where `logarithmic`.
    """
    assert request.loss is not None
    f = given_function(request)
    a = part_of(f, compiled.arguments, request.loss)
    if (isinstance(a.type, ScalarType) and a.type.kind.is_fixed) or (logarithmic and a.type == LOGNUM):
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


def way_back(request: Request, values: Sequence[Any]) -> WayBack:
    """The way back of a machine in differentiation mode, without a gradient program; the scale `"auto"` is 0.

    Raises NotDifferentiable.
    """
    compiled = request.with_cotangents().compiled(values)
    need_automatic(compiled)
    loss = loss_of(request, compiled)
    scale = 0 if request.scale == "auto" else scales_of(request.scale, compiled)[0]
    return WayBack(compiled, loss, 1 << (compiled.format.frac + scale))


def gradient_at(request: Request, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """∂L/∂x, or (L, ∂L/∂x), at these arguments. Raises CompileError, InputError, ProgramTrap."""
    values = request.values(args, keywords)
    compiled = request.compiled(values)
    plan = plan_of(request, compiled)
    execute_externals(request, compiled, values)
    # No context manager: it would double the functions that a warm call passes here.
    try:
        machine, scale = plan.program.run_scaled(plan.scales, values, plan.program.seed, request.engine)
    except ProgramTrap as trap:
        message = f"running back, cotangent overflow in {compiled.format}"
        raise derivative_trap(trap, compiled, values, request.backward, message, COTANGENT_HINT) from None
    found = values.placed({a.name: plan.gradient(machine, values, a, scale) for a in plan.wanted})
    gradients = by_choice(request.argnums, restored_by_name(compiled.arguments, values, found))
    if not request.value:
        return gradients
    assert isinstance(plan.loss.type, ScalarType)
    kind: RealKind = "lognum" if plan.is_logarithmic else "fixed"
    numbers = plan.loss.type.kind.numbers(compiled.format)
    return real_of(machine.memory[plan.program.value], kind, numbers), gradients


def filled(request: Request, number: float, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A gradient at these arguments that holds this number everywhere."""
    values = request.values(args, keywords)
    compiled = request.compiled(values)
    found = {a.name: shaped(a.type, np.full(a.type.size, number)) for a in plan_of(request, compiled).wanted}
    return by_choice(request.argnums, restored_by_name(compiled.arguments, values, found))


@dataclass(frozen=True)
class GradientPlan:
    """The gradient program of a compiled function, and the arguments `wanted` by which it differentiates."""

    compiled: Compiled
    program: DerivedProgram
    loss: Argument
    #: the scales to try; the first is that of the program
    scales: tuple[int, ...]
    wanted: list[Argument]
    #: 2^(F − p) for a loss of the point p, whose cotangent begins as one of the point F; 1 for others
    unit: float

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

    def gradient(self, run: Finished, values: Sequence[Any], a: Argument, scale: int) -> Any:
        """∂L/∂(the argument) after a run on these values at this scale, of the argument's form."""
        w = self.compiled.format
        address = a.address + self.program.cotangents
        if self.is_logarithmic:
            memory = words_of(run)
            inside = from_words(memory[address : address + a.type.size], None, scale, w)
            value = logarithms(LOGNUM, [memory[self.program.value]], w)
            inputs = logarithms(a.type, memory[a.address : a.address + a.type.size], w)
            return shaped(a.type, by_sizes(inside, value, inputs))
        if a.type == FIXED:
            return ((run.memory[address] ^ w.sign) - w.sign) / (1 << (w.frac + scale)) * self.unit
        if run.engine == "cuda" and self.unit == 1.0 and all_fixed(a.type):
            there = numbers_there(run, values, a.type, address, w, scale)
            if there is not None:
                return there
        memory = words_of(run)
        words = memory[address : address + a.type.size]
        size = None if all_fixed(a.type) else sizes(a.type, memory[a.address : a.address + a.type.size], w)
        return shaped(a.type, from_words(words, size, scale, w) * self.unit)


@dataclass(frozen=True)
class WayBack:
    """The way back of a machine: D = 1, the cotangent of the loss is `one`, all others are 0, and the machine is turned."""

    compiled: Compiled
    loss: Argument
    one: int

    @property
    def point(self) -> int:
        """The places of the loss behind its binary point."""
        assert isinstance(self.loss.type, ScalarType)
        return self.loss.type.kind.point(self.compiled.format)

    def begin(self, machine: Machine) -> None:
        """Turn a machine that stands at the end of the run."""
        machine.differentiating = True
        machine.clear_cotangents()
        machine.memory_cotangents[self.loss.address] = self.one
        machine.loss_point = self.point
        machine.turn()


def need_automatic(compiled: Compiled) -> None:
    """Raise NotDifferentiable where a function has an adjoint of the user's: differentiation mode is that of its instructions."""
    own = next((p for p in compiled.module.procedures.values() if p.adjoint is not None), None)
    if own is not None:
        message = f"`{own.name}` has an adjoint of its own, which differentiation mode of the machine does not run"
        refuse(message, "rg.grad runs it, in a gradient program")


def fixed_loss_hint(name: str) -> str:
    """The way out where a loss is a lognum and must be a fixed number."""
    return f"add it to a fixed, `loss += fixed({name})`, or its logarithm, `loss += rg.log({name})`"


def wanted_of(request: Request, arguments: Sequence[Argument]) -> list[Argument]:
    """The chosen parts of the arguments; without a choice, all that have a derivative except `not_inputs` of the loss.

    Raises NotDifferentiable for a part without derivative, and where no argument has one.
    """
    f = given_function(request)
    if request.chosen is None:
        others = () if request.loss is None else not_inputs(f, (request.loss.position,))
        return need_some(
            f, [a for i, a in enumerate(arguments) if i not in others and without_derivative(a.type) is None]
        )
    found = [part_of(f, arguments, part) for part in request.chosen]
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
    mapping leaves out, is zero. A struct's is a struct, or a mapping of its fields; that of a complex number may be
    Python's, ∂L/∂re + i·∂L/∂im. pullback returns the cotangents of all arguments that have a derivative, by name, each
    of the form of its argument. It may be called again; each call runs forward and back once,
    from the arguments as they were.
    f may be an inverse, `~f`; `scale` as in `grad`; `engine`, `format`, `precision`: see `run`. Raises
    NotDifferentiable, CompileError, ProgramTrap.
    Trap: an argument that f leaves alone is a result too, and its cotangent adds to the cotangent that comes back for
    it.
    """
    request = differentiable(f, scale, engine, format, precision)
    return request.suited(args, keywords, lambda found: pulled(found, args, keywords))


def pulled(request: Request, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, Pullback]:
    """The values and the pullback of a request: see `vjp`."""
    values = request.values(args, keywords)
    compiled = request.compiled(values)
    machine = request.machine(compiled, values)
    execute(compiled, machine, None)
    results = request.function.results(*read(compiled, machine, values))
    return results, Pullback(request, compiled, values, machine.memory[: compiled.argument_words])


def pullback_alone(request: Request, args: Sequence[Any]) -> Pullback:
    """The pullback of `vjp` at arguments at which f has run already.

    f runs again only where cotangents depend on its results, and for its `rg.external` blocks.
    """
    values = request.values(tuple(args), {})
    compiled = request.compiled(values)
    final = [0] * compiled.argument_words
    if compiled.externals or any(isinstance(a.type, FormType) or not all_fixed(a.type) for a in compiled.arguments):
        machine = request.machine(compiled, values)
        execute(compiled, machine, None)
        final = machine.memory[: compiled.argument_words]
    return Pullback(request, compiled, values, final)


class Pullback:
    """ȳ → Jᵀȳ at some arguments: see `vjp`."""

    def __init__(self, request: Request, compiled: Compiled, values: list[Any], final: list[int]) -> None:
        self._f, self._request, self._compiled = given_function(request), request, compiled
        #: with their words, which are made; and the trees among them, which the caller may change
        self._values = values
        self._forms = [form_of(v) if has_trees(a.type) else v for a, v in zip(compiled.arguments, values, strict=True)]
        #: the words of the arguments after the run: a cotangent of a lognum is scaled by its value there
        self._final = final
        #: the arguments, results with the form that they have
        self._arguments = [_filled(a, final) for a in compiled.arguments]

    @api_boundary
    def __call__(self, cotangents: Any) -> Any:
        compiled, backward = self._compiled, self._request.backward
        # A function of ints has values, and is refused here only: the functions of `adapters` call it.
        wanted = wanted_of(self._request, self._arguments)
        program, w = pullback_program(compiled, backward), compiled.format
        pairs = [(a, self._flat(a, value)) for a, value in by_argument(self._f, self._arguments, cotangents)]
        unit = self._unit(pairs)

        def seeds(scale: int) -> dict[int, int]:
            given: dict[int, int] = {}
            for a, flat in pairs:
                size = sizes(a.type, self._final[a.address : a.address + a.type.size], w)
                words = to_words(flat, size / unit, scale, w, a.name)
                given |= {a.address + program.cotangents + i: word for i, word in enumerate(words) if word}
            return given

        with derivative_traps(compiled, self._values, backward, *_overflow(w)):
            ran, scale = program.run_scaled(
                scales_of(self._request.scale, compiled), self._values, seeds, self._request.engine
            )
        memory = ran.memory
        report_losses(compiled, pairs, scale, "cotangent")

        def gradient(a: Argument) -> Any:
            at = a.address + program.cotangents
            size = sizes(a.type, memory[a.address : a.address + a.type.size], w)
            return shaped(a.type, from_words(memory[at : at + a.type.size], size, scale, w) * unit)

        gradients = {a.name: gradient(a) for a in wanted}
        return by_choice(None, restored_by_name(compiled.arguments, self._forms, gradients))

    def _unit(self, pairs: Sequence[tuple[Argument, Reals]]) -> float:
        """The power of two that the greatest given cotangent of a word is about, where words have points of their own; else 1.

        The first scales of `"auto"` are for cotangents that begin near 1, as that of a loss does.
        """
        if self._request.scale != "auto" or not any(has_points(a.type) for a in self._compiled.arguments):
            return 1.0
        w, greatest = self._compiled.format, 0.0
        for a, flat in pairs:
            size = np.abs(sizes(a.type, self._final[a.address : a.address + a.type.size], w))
            greatest = max(greatest, float(np.max(np.abs(flat) * size, initial=0.0, where=flat != 0)))
        return 2.0 ** math.frexp(greatest)[1] if 0 < greatest < math.inf else 1.0

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


def pulled_back(request: Request, compiled: Compiled, values: list[Any], given: Mapping[int, int]) -> None:
    """Run the gradient program from these cotangents, address -> word. Raises ProgramTrap."""
    with derivative_traps(compiled, values, request.backward, *_overflow(compiled.format)):
        pullback_program(compiled, request.backward).run(values, given, request.engine)


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
