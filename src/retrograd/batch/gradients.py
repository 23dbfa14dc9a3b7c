"""Gradients of a batch, as one batch: the gradient program run on all elements, by any engine.

    batch_gradient(grad(f), xs)[i] == grad(f)(xs[i]),  bit for bit
    of what all elements share, if so asked:  Σᵢ ∂Lᵢ/∂x,  added up as integers, so exactly

That the gradient program and the machine's differentiation mode agree is a law of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from retrograd.batch.arguments import Axes, Batch, Loaded, many, stacked_values
from retrograd.batch.runs import ElementTrap, run_rows
from retrograd.compiler.compiled import Compiled, Options
from retrograd.compiler.language.types import FIXED
from retrograd.compiler.lower import Argument
from retrograd.differentiation.arguments import (
    Derived,
    Sought,
    direction_of,
    from_integers,
    from_words,
    need_scale,
    position,
    positions,
    shaped,
    sizes,
)
from retrograd.differentiation.gradients import by_choice, choose, need_loss
from retrograd.differentiation.programs import Program, kept, loss_gradient_program
from retrograd.functions.execution import ProgramTrap
from retrograd.isa.words import Format
from retrograd.simulator.engines.batch.layout import Range

#: what becomes of the gradients of an argument that all elements share
Shared = Literal["each", "sum"]


def batch_gradient(
    derived: Derived,
    sought: Sought,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    in_axes: Axes,
    engine: str,
    shared: Shared,
) -> Any:
    """∂L/∂x for each element, stacked along axis 0; with `sought.value`, (L, ∂L/∂x). See `vmap`.

    Raises CompileError, InputError, NotDifferentiable, ElementTrap with the trap that the element's own gradient gives.
    """
    p = plan(sought, args, keywords, in_axes, shared == "sum")
    batch, loaded, scale, w = p.batch, p.loaded, p.scale, p.compiled.format
    rows = run_rows(p.program.compiled, loaded, p.kept, p.summed, engine=engine)
    for i in sorted(rows.traps):
        # Told by the element's own gradient, in its terms; it may even do without what trapped here.
        try:
            derived(*_element(batch, i, len(args)), **_named(batch, i, args, keywords))
        except ProgramTrap as trap:
            raise ElementTrap(trap.diagnostics[0], trap.machine, trap.trap, i) from None
        raise rows.traps[i]
    found: dict[str, Any] = {}
    column = 1
    for a in p.each:
        words, column = rows.after[:, column : column + a.type.size], column + a.type.size
        held = loaded.of(a.name) if a.name in batch.columns else np.tile(_words(loaded, a), (len(words), 1))
        of_all = many(a.type, len(words))
        found[a.name] = shaped(of_all, from_words(words.ravel(), sizes(of_all, held.ravel(), w), scale, w))
    column = 0
    for a in p.added:
        totals, column = rows.sums[column : column + a.type.size], column + a.type.size
        found[a.name] = shaped(a.type, from_integers(totals, sizes(a.type, _words(loaded, a), w), scale, w))
    gradients = by_choice(sought.argnums, {a.name: found[a.name] for a in p.wanted})
    if not sought.value:
        return gradients
    return stacked_values(FIXED, rows.after[:, :1], w), gradients


@dataclass(frozen=True)
class Plan:
    """How the gradients of a batch are run: by which program, on which words, and where what it leaves behind stands."""

    batch: Batch
    compiled: Compiled
    program: Program
    loaded: Loaded
    scale: int
    #: the arguments to differentiate by; of these, those with a gradient for each element, and those with a sum over all
    wanted: list[Argument]
    each: list[Argument]
    added: list[Argument]

    @property
    def kept(self) -> list[Range]:
        """The value of the loss, and the cotangents of `each`."""
        return [(self.program.value, 1), *self._cotangents(self.each)]

    @property
    def summed(self) -> list[Range]:
        """The cotangents of `added`."""
        return self._cotangents(self.added)

    def _cotangents(self, of: list[Argument]) -> list[Range]:
        return [(a.address + self.program.cotangents, a.type.size) for a in of]


def plan(
    sought: Sought,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    in_axes: Axes,
    summed: bool,
    format: Format | str | None = None,
    options: Options | None = None,
) -> Plan:
    """What is run for the gradients of a batch. Raises CompileError, InputError, NotDifferentiable."""
    function, backward = direction_of(sought.f)
    chosen, at = positions(sought.f, sought.argnums), position(sought.f, sought.loss)
    batch = Batch(function, args, keywords, in_axes)
    compiled = function.compiled_for(batch.types(), format, options)
    loss = compiled.arguments[at]
    need_loss(sought.f, loss)
    wanted = choose(sought.f, compiled.arguments, chosen, at)
    scale = need_scale(sought.scale, compiled.format)
    loaded = batch.words(compiled)
    key = "loss gradient", backward, tuple(a.name for a in wanted), loss.name, scale
    program = kept(compiled, key, lambda: loss_gradient_program(compiled, backward, wanted, loss, scale))
    added = [a for a in wanted if summed and a.name not in batch.columns]
    each = [a for a in wanted if a not in added]
    return Plan(batch, compiled, program, loaded, scale, wanted, each, added)


def _words(loaded: Loaded, a: Argument) -> NDArray[np.uint64]:
    """The words of an argument that all elements share."""
    return loaded.shared[a.address : a.address + a.type.size]


def _element(batch: Batch, i: int, positional: int) -> list[Any]:
    return batch.element(i)[:positional]


def _named(batch: Batch, i: int, args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
    names = [p.name for p in batch.function.parameters]
    return {name: value for name, value in zip(names, batch.element(i), strict=True) if name in keywords}
