"""Derivatives as programs of their own: the compiler's transformations, applied to a compiled function.

    dual program      (x, ẋ) -> (y, ẏ)                 runs forward, D = 0
    gradient program  (x, ȳ) -> (x, x̄)                 forward and back in one run
    second order      dual of the gradient program: (x, ẋ) -> (L, ∂L/∂x, H ẋ)

They need no differentiation mode, so any machine that runs programs runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from retrograd.compiler.backend.emission import emit
from retrograd.compiler.compiled import Compiled, real_regions
from retrograd.compiler.derivatives.gradients import Differentiated, dual, gradient
from retrograd.compiler.ir.statements import Module
from retrograd.compiler.lower import Argument
from retrograd.functions.execution import execute, load
from retrograd.simulator.machine import Machine


@dataclass(frozen=True)
class Program:
    """A derived program. Offsets lead from an argument's address to its tangents, to its cotangents, and from those to theirs."""

    compiled: Compiled
    tangents: int
    cotangents: int = 0
    #: the address of the loss's value
    value: int = 0

    def run(self, values: list[Any], tangents: dict[int, int]) -> Machine:
        """From start to finish, from these tangents, address -> word. Raises InputError, ProgramTrap."""
        machine = load(self.compiled, values)
        for address, word in tangents.items():
            machine.load(address + self.tangents, [word])
        execute(self.compiled, machine)
        return machine


#: derived programs that are kept
_KEPT = 64
_programs: dict[tuple[Any, ...], tuple[Compiled, Program]] = {}


def kept(compiled: Compiled, key: tuple[Any, ...], make: Callable[[], Program]) -> Program:
    """The program that a compiled function has under this key, made at most once."""
    full = (id(compiled), *key)
    if full not in _programs:
        if len(_programs) >= _KEPT:
            del _programs[next(iter(_programs))]
        # The function is kept with its program, so that no other can have its identity.
        _programs[full] = compiled, make()
    return _programs[full][1]


def gradient_program(compiled: Compiled, backward: bool) -> Program:
    """(x, ȳ) -> (x, x̄) for all arguments; backward, of the inverse."""
    regions = real_regions(compiled.lowered)
    made = gradient(_oriented(compiled, backward), regions, regions)
    return replace(_program(compiled, made), tangents=0, cotangents=made.offset)


def loss_gradient_program(
    compiled: Compiled, backward: bool, wanted: Sequence[Argument], loss: Argument, scale: int
) -> Program:
    """x -> (x, ∂L/∂x of the arguments wanted, L): the cotangent of the loss begins as 2^scale."""
    inputs = real_regions(compiled.lowered, [a.name for a in wanted])
    outputs = real_regions(compiled.lowered, [loss.name])
    made = gradient(_oriented(compiled, backward), inputs, outputs, loss=loss.address, scale=scale)
    return replace(_program(compiled, made), tangents=0, cotangents=made.offset, value=made.value or 0)


def dual_program(compiled: Compiled, backward: bool) -> Program:
    """(x, ẋ) -> (y, ẏ) for all arguments; backward, of the inverse."""
    regions = real_regions(compiled.lowered)
    module = _oriented(compiled, backward)
    return _program(compiled, dual(module, regions, regions))


def second_order_program(
    compiled: Compiled, backward: bool, wanted: Sequence[Argument], loss: Argument, scale: int
) -> Program:
    """(x, ẋ) -> (L, ∂L/∂x, ∂²L/∂x² ẋ) for the arguments wanted: forward over adjoint."""
    module = _oriented(compiled, backward)
    inputs = real_regions(compiled.lowered, [a.name for a in wanted])
    outputs = real_regions(compiled.lowered, [loss.name])
    first = gradient(module, inputs, outputs, loss=loss.address, scale=scale)
    reached = {r.address + first.offset for r in inputs if r.address is not None}
    cotangents = [r for r in first.module.regions if r.address in reached]
    second = dual(first.module, inputs, cotangents)
    return replace(_program(compiled, second), cotangents=first.offset, value=first.value or 0)


def _oriented(compiled: Compiled, backward: bool) -> Module:
    return ~compiled.module if backward else compiled.module


def _program(compiled: Compiled, derived: Differentiated) -> Program:
    return Program(replace(compiled, module=derived.module, emitted=emit(derived.module)), derived.offset)
