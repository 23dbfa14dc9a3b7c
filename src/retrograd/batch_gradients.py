"""Gradients of a batch, as one batch: the gradient program run on all elements, by any engine.

    batch_gradient(grad(f), xs)[i] == grad(f)(xs[i]),  bit for bit

That the gradient program and the machine's differentiation mode agree is a law of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.batch_arguments import Axes, Batch, many, stacked_values
from retrograd.batch_runs import ElementTrap, run_rows
from retrograd.compiler.lower import Argument
from retrograd.compiler.types import FIXED
from retrograd.differentiation.arguments import (
    Derived,
    Sought,
    direction_of,
    from_words,
    need_scale,
    position,
    positions,
    shaped,
    sizes,
)
from retrograd.differentiation.gradients import by_choice, choose, need_loss
from retrograd.differentiation.programs import Program, kept, loss_gradient_program
from retrograd.execution import ProgramTrap
from retrograd.isa.words import Format


def batch_gradient(
    derived: Derived, sought: Sought, args: tuple[Any, ...], keywords: dict[str, Any], in_axes: Axes, engine: str
) -> Any:
    """∂L/∂x for each element, stacked along axis 0; with `sought.value`, (L, ∂L/∂x). See `vmap`.

    Raises CompileError, InputError, NotDifferentiable, ElementTrap with the trap that the element's own gradient gives.
    """
    function, backward = direction_of(sought.f)
    chosen, at = positions(sought.f, sought.argnums), position(sought.f, sought.loss)
    batch = Batch(function, args, keywords, in_axes)
    compiled = function.compiled_for(batch.types())
    loss = compiled.arguments[at]
    need_loss(sought.f, loss)
    wanted = choose(sought.f, compiled.arguments, chosen, at)
    scale = need_scale(sought.scale, compiled.format)
    given = batch.words(compiled)
    key = "loss gradient", backward, tuple(a.name for a in wanted), loss.name, scale
    program = kept(compiled, key, lambda: loss_gradient_program(compiled, backward, wanted, loss, scale))
    rows = run_rows(program.compiled, _padded(given, program, wanted), engine=engine)
    for i in sorted(rows.traps):
        # Told by the element's own gradient, in its terms; it may even do without what trapped here.
        try:
            derived(*_element(batch, i, len(args)), **_named(batch, i, args, keywords))
        except ProgramTrap as trap:
            raise ElementTrap(trap.diagnostics[0], trap.machine, trap.trap, i) from None
        raise rows.traps[i]
    w = compiled.format
    found = {a.name: _gradients(a, rows.after, given, program, scale, w) for a in wanted}
    gradients = by_choice(sought.argnums, found)
    if not sought.value:
        return gradients
    return stacked_values(FIXED, rows.after[:, program.value : program.value + 1], w), gradients


def _padded(given: NDArray[np.uint64], program: Program, wanted: list[Argument]) -> NDArray[np.uint64]:
    """Rows long enough for cotangents and value to come back in."""
    data = program.compiled.program.data
    ends = [a.address + a.type.size + program.cotangents for a in wanted]
    width = max(program.value + 1, given.shape[1], *ends)
    out = np.zeros((len(given), width), dtype=np.uint64)
    initial = np.array(data[:width], dtype=np.uint64)
    out[:, : len(initial)] = initial
    out[:, : given.shape[1]] = given
    return out


def _gradients(
    a: Argument, after: NDArray[np.uint64], given: NDArray[np.uint64], program: Program, scale: int, w: Format
) -> Any:
    first = a.address + program.cotangents
    words = after[:, first : first + a.type.size].ravel()
    of_all = many(a.type, len(after))
    held = given[:, a.address : a.address + a.type.size].ravel()
    return shaped(of_all, from_words(words, sizes(of_all, held, w), scale, w))


def _element(batch: Batch, i: int, positional: int) -> list[Any]:
    return batch.element(i)[:positional]


def _named(batch: Batch, i: int, args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
    names = [p.name for p in batch.function.parameters]
    return {name: value for name, value in zip(names, batch.element(i), strict=True) if name in keywords}
