"""Gradients of a batch, as one batch: the gradient program runs on all elements, on any engine.

batch_gradient(grad(f), xs)[i] == grad(f)(xs[i]),  bit for bit
with shared="sum", for an argument x that all elements share:  Σᵢ ∂Lᵢ/∂x,  and for the loss  Σᵢ Lᵢ:  exact sums of integers
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.batch.arguments import Axes, Batch, Loaded, is_tuple, many, stacked_values
from retrograd.batch.batches import Shared
from retrograd.batch.runs import ElementTrap, Numbers, run_rows
from retrograd.compiler.language.forms import FormType
from retrograd.compiler.language.types import LOGNUM, StructType, Type
from retrograd.compiler.lower import Argument
from retrograd.differentiation.arguments import (
    Reals,
    all_fixed,
    by_sizes,
    from_integers,
    from_words,
    logarithms,
    refuse,
    shaped,
    sizes,
)
from retrograd.differentiation.gradient_requests import GradientPlan, GradientRequest, by_choice
from retrograd.distribution.tasks import Distribution
from retrograd.functions.execution import ProgramTrap
from retrograd.functions.requests import Request, RunSettings
from retrograd.simulator.engines.batch.layout import Range
from retrograd.values.named import FurtherArguments
from retrograd.values.trees import restored


def batch_gradient(
    derived: Callable[..., Any],
    requested: GradientRequest,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    in_axes: Axes,
    shared: Shared,
    over: Distribution | None = None,
    progress: bool | None = None,
) -> Any:
    """∂L/∂x for each element, stacked along axis 0; with `requested.value`, (L, ∂L/∂x). See `vmap`.

    Each element has the scale that it has alone; a sum of several scales is exact.

    Raises CompileError, InputError, NotDifferentiable, ElementTrap with the trap that the element's own gradient gives.
    """
    b = BatchGradient.of(requested, args, keywords, in_axes, shared == "sum")
    if b.plan.compiled.externals:
        run_rows(b.plan.compiled, b.loaded, [], (), requested.run)
    batch, plan, loaded, w = b.batch, b.plan, b.loaded, b.plan.compiled.format
    settings = RunSettings(engine=requested.run.engine)
    loss = [(plan.program.value, 1)] if requested.value or plan.is_logarithmic else []
    value, total = ([], loss) if shared == "sum" else (loss, [])

    def numbers(scale: int) -> dict[Range, Numbers]:
        found = {r: Numbers(scale, words=False) for a, r in zip(b.each, b.cotangents, strict=True) if all_fixed(a.type)}
        return found if plan.is_logarithmic else found | dict.fromkeys(value, Numbers())

    ran = plan.program.run_rows_scaled(
        plan.scales, loaded, plan.program.seed, numbers, [*value, *b.cotangents], total, b.summed,
        settings, progress, over,
    )  # fmt: skip
    rows = ran.rows
    for i in sorted(rows.traps):
        # The message is that of the element's own gradient.
        try:
            derived(*batch.element(i)[: len(args)], **_named(batch, i, keywords))
        except ProgramTrap as trap:
            raise ElementTrap(trap.diagnostics[0], trap.machine, trap.trap, i) from None
        raise rows.traps[i]
    found: dict[str, Any] = {}
    logarithmic = rows.results[0].words if plan.is_logarithmic else None
    for a, result in zip(b.each, rows.results[len(value) :], strict=True):
        if result.reals is not None and logarithmic is None:
            found[a.name] = _stacked(a.type, result.reals.reshape(batch.length, a.type.size))
            continue
        held = np.tile(_words(loaded, a), (batch.length, 1)) if batch.shares(a) else _rows(loaded, a)
        of_all = many(a.type, batch.length)
        scales = np.repeat(ran.scales, a.type.size)
        if logarithmic is not None:
            of = [np.repeat(x, a.type.size) for x in logarithms(many(LOGNUM, batch.length), logarithmic.ravel(), w)]
            if result.reals is None:
                assert result.words is not None
                inside = from_words(result.words.ravel(), None, scales, w)
            else:
                inside = result.reals.ravel()
            reals = by_sizes(inside, of, logarithms(of_all, held.ravel(), w))
            found[a.name] = _stacked(a.type, reals.reshape(batch.length, a.type.size))
            continue
        assert result.words is not None
        reals = from_words(result.words.ravel(), sizes(of_all, held.ravel(), w), scales, w)
        found[a.name] = _stacked(a.type, reals.reshape(batch.length, a.type.size))
    column = len(total)
    for a in b.added:
        added, column = rows.sums[column : column + a.type.size], column + a.type.size
        total_of = shaped(a.type, from_integers(added, sizes(a.type, _words(loaded, a), w), plan.scales[0], w))
        found[a.name] = restored(a.type, batch.values[a.name], total_of) if a.name in batch.values else total_of
    for a in b.each:
        if isinstance(a.type, FormType):
            found[a.name] = list(found[a.name])
    gradients = by_choice(requested.argnums, {a.name: found[a.name] for a in b.plan.wanted})
    if not requested.value:
        return gradients
    if total:
        return rows.sums[0] / (1 << w.frac), gradients
    return stacked_values(plan.loss.type, rows.results[0], w), gradients


@dataclass(frozen=True)
class BatchGradient:
    """The gradient program of a batch, the words that it runs on, and the places of its results."""

    batch: Batch
    plan: GradientPlan
    loaded: Loaded
    #: of the arguments to differentiate by, those with a gradient for each element, and those with a sum over all
    each: list[Argument]
    added: list[Argument]

    @classmethod
    def of(
        cls,
        requested: GradientRequest,
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        in_axes: Axes,
        summed: bool,
        run: Request | None = None,
    ) -> BatchGradient:
        """The gradients of a batch, run as requested or as `run`. Raises CompileError, InputError, NotDifferentiable."""
        batch = Batch(run or requested.run, args, keywords, in_axes)
        plan = requested.plan(batch.compiled())
        if summed and plan.is_logarithmic:
            message = (
                f"the losses `{plan.loss.name}` of the batch are lognums, whose gradients are not added on the way"
            )
            refuse(message, "leave out `shared`, and add the gradients of the elements with `.sum(axis=0)`")
        added = [a for a in plan.wanted if summed and batch.shares(a)]
        each = [a for a in plan.wanted if a not in added]
        return cls(batch, plan, batch.words(plan.compiled), each, added)

    @property
    def cotangents(self) -> list[Range]:
        """The places of the cotangents of `each`."""
        return self._cotangents(self.each)

    @property
    def summed(self) -> list[Range]:
        """The places of the cotangents of `added`."""
        return self._cotangents(self.added)

    def _cotangents(self, of: list[Argument]) -> list[Range]:
        return [(a.address + self.plan.program.cotangents, a.type.size) for a in of]


def _stacked(t: Type, rows: Reals) -> Any:
    """The cotangents of all elements, one row for each; those of `*xs` as a tuple of stacked parts."""
    if not isinstance(t, StructType) or not is_tuple(t):
        return shaped(many(t, len(rows)), rows.ravel())
    ends = np.cumsum([inner.size for _, inner in t.fields])[:-1]
    parts = zip(t.fields, np.split(rows, ends, axis=1), strict=True)
    return FurtherArguments(_stacked(inner, part) for (_, inner), part in parts)


def _rows(loaded: Loaded, a: Argument) -> NDArray[np.uint64]:
    """The words of a batched argument, or of a part of one, one row for each element."""
    name, (first, _) = next((n, r) for n, r in loaded.ranges.items() if r[0] <= a.address < r[0] + max(1, r[1]))
    rows = loaded.of(name)
    return rows[:, a.address - first : a.address - first + a.type.size]


def _words(loaded: Loaded, a: Argument) -> NDArray[np.uint64]:
    """The words of an argument that all elements share."""
    return loaded.shared[a.address : a.address + a.type.size]


def _named(batch: Batch, i: int, keywords: dict[str, Any]) -> dict[str, Any]:
    names = [p.name for p in batch.function.parameters]
    return {name: value for name, value in zip(names, batch.element(i), strict=True) if name in keywords}
