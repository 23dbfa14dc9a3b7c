"""Derivatives as programs: the compiler's transformations, applied to a compiled function.

    tangent program    (x, ẋ) -> (y, ẏ)                 runs forward
    gradient program   (x, ȳ) -> (x, x̄)                 runs forward and back: P; L̄ += 1; lift(P⁻¹); back only where P accumulates
    second order       tangents of the gradient program: (x, ẋ) -> (L, ∂L/∂x, H ẋ)

These programs need no differentiation mode, so every engine runs them, batches included. Differentiation mode of the machine and of
the co-processor gives the same bits; tests compare the two.

Trap: a derivative may not fit in a word where all numbers of the function do. `derivative_trap` distinguishes the two cases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled, emit_optimised, faults_reported, real_regions
from retrograd.compiler.deep_recursion import with_deep_stack
from retrograd.compiler.derivatives.gradients import Differentiated, dual, gradient
from retrograd.compiler.ir.statements import Module
from retrograd.compiler.pipeline import Argument
from retrograd.derivatives._arguments import OVERFLOW, overflows
from retrograd.isa.diagnostics import InputError
from retrograd.runtime._batch_arguments import Loaded
from retrograd.runtime._batch_runs import DEFAULT, BatchWords, Numbers, run_distributed
from retrograd.runtime._distribution import Distribution
from retrograd.runtime._execution import (
    Finished,
    ProgramTrap,
    Request,
    RunSettings,
    Unexplained,
    execute,
    finished,
    load,
)
from retrograd.runtime._traps import explain
from retrograd.simulator.engines.batch.layout import Range
from retrograd.simulator.machine import Machine, Trap

T = TypeVar("T")
#: shadows of a word that run beside one another, and instructions of a program up to which there are several: lanes take no longer one
COPIES, LONGEST = 4, 3000


#: the instructions that a conditional program may execute
_LIMIT = 1 << 28


@dataclass
class DerivedProgram:
    """A derived program. Offsets lead from an argument's address to its tangents, to its cotangents, and from those to theirs.

    Without a forward sweep a program is conditional: where it traps, or takes too long, the program that `complete` makes is run in its place.
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
        """The run from these arguments and words (address -> word). Raises InputError, ProgramTrap. `rg.external` blocks are not executed."""
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

    def run_rows(
        self, loaded: Loaded, kept: Sequence[Range], settings: RunSettings = DEFAULT, explain: bool = True
    ) -> BatchWords:
        """A batch of these runs: see `retrograd.runtime._batch_runs.run_distributed`."""
        return self.run_rows_scaled(
            (0,), loaded, lambda _: {}, lambda _: {}, kept, (), (), settings, explain=explain
        ).rows

    def run_rows_scaled(
        self,
        scales: Sequence[int],
        loaded: Loaded,
        seed: Callable[[int], Mapping[int, int]],
        numbers: Callable[[int], Mapping[Range, Numbers]],
        kept: Sequence[Range],
        totals: Sequence[Range],
        summed: Sequence[Range],
        settings: RunSettings = DEFAULT,
        progress: bool | None = None,
        over: Distribution | None = None,
        explain: bool = True,
    ) -> ScaledRows:
        """The rows, with the words seed(k), each for the first of the scales k at which it does not overflow.

        Rows that fail are run again, together, at the next scale. `numbers(k)`: see `retrograd.runtime._batch_runs.run_rows`. The sums are of
        the ranges `totals`, which no scale multiplies, and then of `summed`, at the first scale: Σᵢ wordᵢ·2^(first − kᵢ), exactly.
        """
        whole_is_left = self.complete is not None
        limited = replace(settings, max_steps=_LIMIT) if whole_is_left else settings
        apart, found, at = sum(n for _, n in totals), None, np.zeros(0, dtype=np.int64)
        left: list[int] = []
        for k in scales:
            rows = (loaded if found is None else loaded.at(left)).with_words(seed(k))
            part = run_distributed(
                self.compiled, rows, kept, [*totals, *summed], limited,
                numbers=numbers(k), progress=progress, over=over, explain=explain and k == scales[-1] and not whole_is_left,
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
                scales, loaded.at(failed), seed, numbers, kept, totals, summed, settings, progress, over, explain
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
    """Execute the `rg.external` blocks of a function, if it has any, by a run of the function itself. Raises ProgramTrap."""
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
    """(x, ẋ) -> (L, ∂L/∂x, ∂²L/∂x² ẋ) for the arguments `wanted`: forward over adjoint. `copies`: of ẋ, beside one x."""
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
