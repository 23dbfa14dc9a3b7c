"""Gradients as functions: `reversible_gradient`, to be called within others; batches of gradients; `grad` and `value_and_grad`.

batch_gradient(grad(f), xs)[i] == grad(f)(xs[i]),  bit for bit
with shared="sum", for an argument x that all elements share:  Σᵢ ∂Lᵢ/∂x,  and for the loss  Σᵢ Lᵢ:  exact sums of integers
batch_pullback(f, xs, ȳs)[i] == vjp(f, xs[i])[1](ȳs[i]),  bit for bit
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled, Precision
from retrograd.compiler.frontends.python.source import NOTHING, Parameter
from retrograd.compiler.frontends.specialisation import GradientOf
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import (
    FIXED,
    LOGNUM,
    ArrayAnnotation,
    ArrayType,
    ScalarType,
    StructType,
    Type,
    element_of,
    is_complex,
    is_struct,
    scalar_of,
)
from retrograd.compiler.language.values import FormType
from retrograd.compiler.pipeline import Argument
from retrograd.derivatives._arguments import (
    Reals,
    all_fixed,
    by_sizes,
    differentiable,
    direction_of,
    flattened,
    from_integers,
    from_words,
    given_function,
    is_one,
    logarithms,
    loss_part,
    made_by,
    need_derivative,
    position,
    positions,
    refuse,
    report_losses,
    scales_of,
    shaped,
    sizes,
    without_derivative,
)
from retrograd.derivatives._requests import (
    GradientPlan,
    by_argument,
    by_choice,
    filled,
    fixed_loss_hint,
    gradient_at,
    plan_of,
    pullback_program,
    pulled,
    wanted_of,
)
from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError
from retrograd.isa.words import Q32_32, Format, nearest_point
from retrograd.runtime._batch_arguments import (
    Axes,
    Batch,
    Loaded,
    element_type,
    in_given_form,
    is_tuple,
    many,
    stacked_values,
)
from retrograd.runtime._batch_runs import ElementTrap, Numbers, run_rows
from retrograd.runtime._batches import Shared, argument_ranges
from retrograd.runtime._binding import FurtherArguments, fixed, restored
from retrograd.runtime._compilation import with_options
from retrograd.runtime._execution import ProgramTrap, Request, Scale, Which
from retrograd.runtime._reversible import Derived, Inverse, Made, Reversible
from retrograd.simulator.engines.batch.layout import Range, ResultArray

#: words that are kept for cotangents
_KEPT_WORDS = 1 << 12


class ReversibleGradient(Reversible):
    """A reversible function that is made from the source of another."""

    def __init__(self, of: Reversible, gradient_of: GradientOf, parameters: tuple[Parameter, ...]) -> None:
        super().__init__(of.fn, of.format, of.options)
        self.read_from = of
        self.gradient_of = gradient_of
        self.parameters = parameters
        self.__name__ = f"gradient_of_{of.__name__}"
        self.__qualname__ = f"gradient of {of.__qualname__}"
        loss, count = parameters[gradient_of.loss].name + gradient_of.path, len(of.parameters)
        gains = (
            f"{gain.name} += ∂{loss}/∂{parameters[i].name}"
            for i, gain in zip(gradient_of.wanted, parameters[count:], strict=True)
        )
        self.__doc__ = f"{', '.join(gains)}; all else as it was."

    def __reduce__(self) -> tuple[Any, ...]:
        of = self.gradient_of
        assert of is not None
        function = cast("Reversible", of.function)  # as `reversible_gradient` was given it
        inner = ~function if of.backward else function
        loss = function.parameters[of.loss].name + of.path
        return _made_again, (inner, of.wanted, loss, of.keep, self.format, self.options)

    def with_options(self, **changes: Any) -> Reversible:
        """The same function compiled otherwise: see `Reversible.with_options`."""
        plain = super().with_options(**changes)
        assert self.gradient_of is not None
        other = ReversibleGradient(plain, self.gradient_of, self.parameters)
        other.read_from = self.read_from
        other.__name__, other.__qualname__ = self.__name__, self.__qualname__
        return other

    def of_stand_in(self, inner: Reversible) -> ReversibleGradient:
        """The same gradient of a function that stands in for its own, as one with other points does."""
        assert self.gradient_of is not None
        gains = self.parameters[len(inner.parameters) :]
        return ReversibleGradient(inner, replace(self.gradient_of, function=inner), (*inner.parameters, *gains))


def reversible_gradient(
    f: Reversible | Inverse, argnums: Which = None, loss: int | str = 0, *, keep: int = _KEPT_WORDS
) -> ReversibleGradient:
    """df(*args, *d) : d += ∂L/∂args, all else as it was; L is the value that the argument `loss`, or its part `"a.x"` or `"y[1]"`, has after f(*args).

    Inverse: d −= ∂L/∂args. A reversible function like any other: it is called within reversible functions and in loops, inverted, and
    differentiated in its turn. For each argument x of `argnums` (positions or names; None stands for all that are annotated with
    fixed or lognum, or a struct or array that holds some, except the loss) it has one more argument, `d_x`, of x's shape, of fixed
    numbers; ints and bools of a struct stay as they are in `d_x`. Within a reversible function `d_x` may have any
    binary point, which cotangents have, too, where it is finer than theirs, F + q − p for a loss at q and x at p; from
    outside it has (W − F)/2 places more. All intermediate values are uncomputed, so it takes about four times as long
    as f. In between it keeps the cotangents of the variables that f frees, at most `keep` words (RG0809). From outside
    of reversible functions `rg.grad` is faster.
    Raises NotDifferentiable for arguments that do not exist or have no derivative; for arguments without annotation, when it is compiled.
    Trap: arguments that f changes must be variables of the caller, as for f.
    """
    function, backward = direction_of(f)
    lost_part, chosen = loss_part(f, loss), positions(f, argnums)
    at = lost_part.position
    keep = _gradient_words(keep)
    lost = function.parameters[at]
    if not lost_part.steps and lost.annotation is not NOTHING and not _is_fixed(lost.annotation):
        hint = "a loss is one fixed number"
        if scalar_of(lost.annotation) == LOGNUM:
            hint += f"; {fixed_loss_hint(lost.name)}"
        refuse(f"the loss `{lost.name}` of `{f.__name__}` is {_cotangent_named(lost.annotation)}", hint)
    if chosen is None:
        chosen = [
            i
            for i, p in enumerate(function.parameters)
            if i != at and p.annotation is not NOTHING and _holds_reals(p.annotation)
        ]
    if not chosen:
        hint = "name arguments of fixed or lognum in `argnums`; None is those that are annotated so, but the loss"
        refuse(f"`{f.__name__}` has no argument to differentiate by", hint)
    names = {p.name for p in function.parameters}
    gains: list[Parameter] = []
    for i in chosen:
        p = function.parameters[i]
        found = _without_gradient(p.annotation)
        if found is not None:
            refuse(
                f"`{p.name}` of `{f.__name__}` is {_cotangent_named(p.annotation)}: {found}",
                "choose others, in `argnums`",
            )
        name = f"d_{p.name}"
        while name in names:
            name += "_"
        names.add(name)
        gain = _gain(p.annotation, lost.annotation, function.format)
        gains.append(Parameter(name, gain, variadic=p.variadic, gains=True))
    of = GradientOf(function, backward, at, tuple(chosen), keep, lost_part.steps, lost_part.path)
    return ReversibleGradient(function, of, (*function.parameters, *gains))


def _made_again(f: Any, wanted: tuple[int, ...], loss: str, keep: int, format: Any, options: Any) -> Any:
    """The function out of a pickle, with its options."""
    return with_options(reversible_gradient(f, wanted, loss, keep=keep), format, options)


def _gradient_words(keep: Any) -> int:
    try:
        words = 0 if isinstance(keep, bool) else operator.index(keep)
    except TypeError:
        words = 0
    if words < 1:
        refuse(f"keep = {keep!r:.40}", "a number of words, 1 or more")
    return words


def _without_gradient(annotation: Any) -> str | None:
    """Why an argument of this annotation has no gradient of the same shape, in words, or None. Without an annotation it may have one."""
    if annotation is NOTHING:
        return None
    if not _holds_reals(annotation):
        element = element_of(_element(annotation))
        found = None if element is None else without_derivative(element)
        return "it has no derivative" if found is None else f"{found} has no derivative"
    if scalar_of(_element(annotation)) is None and _holds(annotation, {Kind.LOGNUM}):
        return "a gradient is made of fixed numbers, and a struct like this holds a lognum"
    return None


def _element(annotation: Any) -> Any:
    """The annotation of an array's elements; any other annotation as it is."""
    return annotation.element if isinstance(annotation, ArrayAnnotation) else annotation


def _is_fixed(annotation: Any) -> bool:
    scalar = scalar_of(annotation)
    return scalar is not None and scalar.kind.is_fixed


def _holds_reals(annotation: Any) -> bool:
    """Whether some number of an argument of this annotation has a derivative."""
    return _holds(annotation, (Kind.FIXED, Kind.LOGNUM))


def _holds(annotation: Any, wanted: Collection[Kind]) -> bool:
    """Whether an argument of this annotation holds numbers of these kinds, stacks aside."""
    annotation = _element(annotation)
    if annotation is complex:
        return Kind.FIXED in wanted
    scalar = scalar_of(annotation)
    if scalar is not None:
        return (Kind.FIXED if scalar.kind.is_fixed else scalar.kind) in wanted
    return is_struct(annotation) and any(_holds(field, wanted) for field in annotation.__retrograd_fields__.values())


def _gain(annotation: Any, lost: Any, format: Format | None) -> Any:
    """The annotation, for calls from outside, of the gradient by an argument. `lost`: that of the loss.

    Of numbers at p and a loss at q its point is F + q − p + (W − F)/2: cotangents have half of the room above F.
    """
    if isinstance(annotation, ArrayAnnotation) and scalar_of(annotation.element) is not None:
        return ArrayAnnotation(_gain(annotation.element, lost, format), annotation.dims)
    own, of = scalar_of(annotation), scalar_of(lost)
    if own is None:
        return annotation
    kinds = own.kind, Kind.FIXED if of is None else of.kind
    if all(k is Kind.FIXED or not k.is_fixed for k in kinds):
        return fixed
    w = Q32_32 if format is None else format
    p, q = (k.point(w) if k.is_fixed else w.frac for k in kinds)
    point = nearest_point(w.frac + q - p + (w.width - w.frac) // 2, w.width)
    return cast("Any", fixed)[point]


def _cotangent_named(annotation: Any) -> str:
    return str(element_of(annotation) or getattr(annotation, "__name__", annotation))


# -----------------------------------------------------------------------------
# Gradients of a batch, as one batch: the gradient program runs on all elements, on any engine.


def batch_gradient(
    request: Request, args: tuple[Any, ...], keywords: dict[str, Any], in_axes: Axes, summed: bool
) -> Any:
    """∂L/∂x for each element, stacked along axis 0; with `request.value`, (L, ∂L/∂x). See `vmap`.

    Each element has the scale that it has alone; a sum of several scales is exact.

    Raises CompileError, InputError, NotDifferentiable, ElementTrap with the trap that the element's own gradient gives.
    """
    b = BatchGradient.of(request, args, keywords, in_axes, summed)
    if b.plan.compiled.externals:
        run_rows(request, b.plan.compiled, b.loaded, [])
    batch, plan, loaded, w = b.batch, b.plan, b.loaded, b.plan.compiled.format
    loss = [(plan.program.value, 1)] if request.value or plan.is_logarithmic else []
    value, total = ([], loss) if summed else (loss, [])

    def numbers(scale: int) -> dict[Range, Numbers]:
        found = {r: Numbers(scale, words=False) for a, r in zip(b.each, b.cotangents, strict=True) if all_fixed(a.type)}
        return found | dict.fromkeys(value, Numbers()) if all_fixed(plan.loss.type) else found

    ran = plan.program.run_rows_scaled(
        request, plan.scales, loaded, plan.program.seed, numbers, [*value, *b.cotangents], total, b.summed
    )
    rows = ran.rows
    for i in sorted(rows.traps):
        # The message is that of the element's own gradient.
        try:
            gradient_at(request, tuple(batch.element(i)[: len(args)]), _named(batch, i, keywords))
        except ProgramTrap as trap:
            raise ElementTrap(trap.diagnostics[0], trap.machine, trap.trap, i) from None
        raise rows.traps[i]
    found: dict[str, Any] = {}
    logarithmic = rows.results[0].words if plan.is_logarithmic else None
    for a, result in zip(b.each, rows.results[len(value) :], strict=True):
        if result.there and (there := _on_device(a, result, plan, batch.length)) is not None:
            found[a.name] = there
            continue
        if result.reals is not None and logarithmic is None:
            found[a.name] = _stacked(a.type, result.reals.reshape(batch.length, a.type.size) * plan.unit)
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
        reals = from_words(result.words.ravel(), sizes(of_all, held.ravel(), w), scales, w) * plan.unit
        found[a.name] = _stacked(a.type, reals.reshape(batch.length, a.type.size))
    column = len(total)
    for a in b.added:
        added, column = rows.sums[column : column + a.type.size], column + a.type.size
        reals = from_integers(added, sizes(a.type, _words(loaded, a), w), plan.scales[0], w) * plan.unit
        total_of = shaped(a.type, reals)
        found[a.name] = restored(a.type, batch.values[a.name], total_of) if a.name in batch.values else total_of
    for a in b.each:
        if isinstance(a.type, FormType):
            found[a.name] = list(found[a.name])
    if batch.device is not None:
        from retrograd.runtime._device import on_the_device_of

        found = {name: on_the_device_of(one, batch.device) for name, one in found.items()}
    gradients = by_choice(request.argnums, {a.name: found[a.name] for a in b.plan.wanted})
    if not request.value:
        return gradients
    if total:
        assert isinstance(plan.loss.type, ScalarType)
        return float(w.times(rows.sums[0], -plan.loss.type.kind.point(w))), gradients
    return stacked_values(plan.loss.type, rows.results[0], w, batch.length), gradients


def _on_device(a: Argument, result: ResultArray, plan: GradientPlan, count: int) -> Any:
    """The gradients by an argument of fixed numbers, where they lie on a device as they are; else None."""
    if (
        plan.is_logarithmic
        or plan.unit != 1.0
        or not all_fixed(a.type)
        or not isinstance(element_type(a.type), ScalarType)
    ):
        return None
    return result.on_device((count, *(a.type.shape if isinstance(a.type, ArrayType) else ())))


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
        cls, request: Request, args: tuple[Any, ...], keywords: dict[str, Any], in_axes: Axes, summed: bool
    ) -> BatchGradient:
        """The gradients of a batch. Raises CompileError, InputError, NotDifferentiable."""
        batch = Batch(request, args, keywords, in_axes)
        plan = plan_of(request, batch.compiled())
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


# -----------------------------------------------------------------------------
# Cotangents of all results, of a batch.


def batch_pullback(request: Request, args: Sequence[Any], in_axes: Axes, cotangents: Sequence[Any]) -> Any:
    """Jᵢᵀȳᵢ for each element i: the cotangents of all arguments that have a derivative, by name, stacked along axis 0. See `vjp`.

    `args`: all arguments, batched along `in_axes` as by `run_batch`. `cotangents`: ȳ for each argument, of all elements along axis 0; None is zero.
    Each element has the scale that it has alone. Raises CompileError, InputError, NotDifferentiable, ElementTrap.
    """
    f, batch = given_function(request), Batch(request, args, {}, in_axes)
    compiled = batch.compiled()
    w, count = compiled.format, batch.length
    loaded = batch.words(compiled)
    wanted = wanted_of(request, compiled.arguments)
    program = pullback_program(compiled, request.backward)
    pairs: list[tuple[Argument, Reals]] = []
    for a, value in by_argument(f, compiled.arguments, cotangents):
        need_derivative(f, a.name, a.type)
        pairs.append((a, _flat_rows(a.type, a.name, value, count)))
    held = () if all(all_fixed(a.type) for a, _ in pairs) else _after(request, compiled, loaded)
    seeds = [flat if all_fixed(a.type) else _by_logarithms(a, flat, held, compiled) for a, flat in pairs]
    scales = scales_of(request.scale, compiled)
    places = [(a.address + program.cotangents, a.type.size) for a in wanted]
    pulled = np.zeros((count, sum(n for _, n in places)), dtype=np.uint64)
    at, left = np.zeros(count, dtype=np.int64), np.arange(count)
    for k in scales:
        fits = np.ones(len(left), dtype=np.bool_)
        for flat in seeds:
            with np.errstate(over="ignore"):
                scaled = np.rint(flat[left] * 2.0 ** (k + w.frac))
            fits &= ((scaled >= -w.sign) & (scaled < w.sign)).all(axis=1)
        rows, outside = left[fits], left[~fits]
        if len(rows):
            begin = loaded.at(rows.tolist())
            for i, ((a, _), flat) in enumerate(zip(pairs, seeds, strict=True)):
                words = fixed.to_words((flat[rows] * 2.0**k).ravel(), w).reshape(len(rows), a.type.size)
                begin = begin.with_rows(f"cotangent {i}", a.address + program.cotangents, words)
            ran = program.run_rows(request, begin, places, explain=False)
            stopped = sorted({*ran.failed, *ran.traps})
            ends = np.delete(np.arange(len(rows)), stopped)
            pulled[rows[ends]], at[rows[ends]] = ran.after[ends], k
            given = [(_rows_of_numbers(a, len(ends)), flat[rows[ends]].ravel()) for a, flat in pairs]
            report_losses(compiled, given, k, "cotangent")
            outside = np.concatenate([outside, rows[stopped]])
        left = np.sort(outside)
        if not len(left):
            break
    if len(left):
        _raise_of_element(request, batch, int(left[0]), pairs)
    found: dict[str, Any] = {}
    columns = np.split(pulled, np.cumsum([n for _, n in places])[:-1], axis=1)
    for a, words in zip(wanted, columns, strict=True):
        size = None
        if not all_fixed(a.type):
            before = np.tile(_words(loaded, a), (count, 1)) if batch.shares(a) else _rows(loaded, a)
            size = sizes(many(a.type, count), before.ravel(), w)
        reals = from_words(words.ravel(), size, np.repeat(at, a.type.size), w)
        stacked = _stacked(a.type, reals.reshape(count, a.type.size))
        found[a.name] = in_given_form(a.type, batch.given(a.name), stacked)
    return by_choice(None, found)


def _flat_rows(t: Type, name: str, value: Any, count: int) -> Reals:
    """The cotangents of all elements for an argument, flat, one row for each. Raises NotDifferentiable."""
    if isinstance(t, StructType) and is_tuple(t):
        parts = zip(t.fields, value, strict=True)
        return np.hstack([_flat_rows(inner, f"{name}.{field}", part, count) for (field, inner), part in parts])
    if isinstance(value, np.ndarray) and value.dtype != object:
        return flattened(many(t, count), value, name).reshape(count, t.size)
    return np.stack([flattened(t, one, name) for one in value])


def _rows_of_numbers(a: Argument, count: int) -> Argument:
    """The argument as it holds the values of all elements; a complex number has two numbers for each."""
    return replace(a, type=ArrayType(FIXED, (count, 2)) if is_complex(a.type) else many(a.type, count))


def _after(request: Request, compiled: Compiled, loaded: Loaded) -> Sequence[NDArray[np.uint64]]:
    """The words of each argument after the runs, one row for each element."""
    ranges, _ = argument_ranges(compiled)
    ran = run_rows(request, compiled, loaded, ranges, explain=False)
    return np.split(ran.after, np.cumsum([n for _, n in ranges])[:-1], axis=1)


def _by_logarithms(a: Argument, flat: Reals, held: Sequence[NDArray[np.uint64]], compiled: Compiled) -> Reals:
    """Cotangents by the words of an argument: those of a lognum y are y·∂L/∂y. Zero stays zero where y is beyond the range of floats."""
    words = held[compiled.arguments.index(a)]
    size = sizes(many(a.type, len(flat)), words.ravel(), compiled.format).reshape(flat.shape)
    return np.multiply(flat, size, out=np.zeros_like(flat), where=flat != 0)


def _raise_of_element(request: Request, batch: Batch, i: int, pairs: list[tuple[Argument, Reals]]) -> NoReturn:
    """Raise the error of an element's own pullback, naming the element."""
    given = {a.name: shaped(a.type, flat[i]) for a, flat in pairs}
    try:
        pulled(request, tuple(batch.element(i)), {})[1](given)
    except ProgramTrap as trap:
        raise ElementTrap(trap.diagnostics[0], trap.machine, trap.trap, i) from None
    except InputError as error:
        d = error.diagnostics[0]
        raise InputError(replace(d, message=f"element {i}: {d.message}")) from None
    raise AssertionError(f"element {i} fails in a batch, and not by itself")


# -----------------------------------------------------------------------------
# Gradients of one number, as Python functions: `grad`, `value_and_grad`.

#: the codes of a number that does not exist or has no word: in a run, and among the arguments
_NO_NUMBER = frozenset(("RG0402", "RG0403", "RG0404", "RG0411", "RG0601"))
#: words in which a gradient within a gradient keeps cotangents
_KEEP = 1 << 16


def grad(
    f: Reversible | Inverse | GradientFunction,
    argnums: Which = None,
    loss: int | str = 0,
    *,
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
) -> GradientFunction:
    """g(*args) = ∂L/∂args, L being the value that the argument `loss` has after f(*args).

    `loss`: a position, a name, or a path to one number, `"a.x"` or `"y[1]"`. `argnums`: positions or names; one gives a gradient by itself, several a tuple, None all that have a derivative, by
    name, without the argument that holds the loss. The loss may be chosen too: the value that it has before is an input. A gradient has the type and shape of its
    argument; that of a complex number or another struct is a struct of its fields' derivatives (∂L/∂re, ∂L/∂im: not conjugated).
    `scale` = k runs with L̄ = 2^k and divides by 2^k: k more binary places for small gradients, and k fewer before the
    point; `"auto"` is the first of a list at which nothing overflows, 16, 8, 0, −8 in Q32.32 (see `scales.automatic`). `engine`, `format`, `precision`: see `run`. f may be an inverse, `~f`. Raises NotDifferentiable (a TypeError) naming an argument
    of another type than fixed or lognum, CompileError, ProgramTrap.
    A gradient by one number, f = rg.grad(g, "x"), has a gradient in its turn, and so on: `loss` is then the value of f.
    Trap: each step of a cotangent is rounded as numbers are; in narrow formats cotangents may overflow, and trap. At square roots and
    atan2 that is one bit earlier than in differentiation mode of the machine.
    """
    return GradientFunction(f, argnums, loss, scale, engine, format, precision)


def value_and_grad(
    f: Reversible | Inverse,
    argnums: Which = None,
    loss: int | str = 0,
    *,
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
    traps: Literal["raise", "inf"] = "raise",
) -> Callable[..., Any]:
    """g(*args) = (L, ∂L/∂args): see `grad`.

    `traps="inf"`: (∞, NaN), the NaNs in the gradient's form, at arguments where L or its gradient has no number: a number that does not fit the format,
    a division by zero, an argument outside the domain of a function. An optimiser's line search then shortens its step. Every other error is raised.
    Trap: a batch of it runs element by element, and has no `shared="sum"`.
    """
    if traps not in ("raise", "inf"):
        raise InputError(Diagnostic("RG0603", f"traps = {traps!r:.40}", hint='"raise" or "inf"'))
    request = differentiable(f, scale, engine, format, precision, argnums, loss, value=True)
    call, args, settings = made_by(value_and_grad, request, loss)
    return LossFunction("value_and_grad", request, (call, args, {**settings, "traps": traps}), traps == "inf")


class LossFunction(Derived):
    """A Python function of the loss of a reversible function: its gradient, with or without its value."""

    runs_on_device = True

    def __init__(self, name: str, request: Request, made: Made, infinite: bool = False) -> None:
        call = self.differentiated_or_infinite if infinite else self.differentiated
        super().__init__(name, given_function(request), call, made)
        self.request = request
        #: whether it is infinite where the loss or its gradient has no number
        self.infinite = infinite
        #: initial values of arguments that the caller does not give
        self.zeros: dict[str, float] = {}

    def differentiated(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """The gradient at these arguments."""
        try:
            return gradient_at(self.request, args, {**keywords, **self.zeros} if self.zeros else keywords)
        except RetrogradError as error:
            if not self.infinite and self.request.value and error.code in _NO_NUMBER:
                error.add_note(
                    'For an optimiser: `rg.value_and_grad(…, traps="inf")` gives an infinite loss at such a point.'
                )
            raise

    def differentiated_or_infinite(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """The same, or (∞, NaN): see `value_and_grad`."""
        try:
            return self.differentiated(args, keywords)
        except RetrogradError as error:
            if error.code not in _NO_NUMBER:
                raise
            return math.inf, filled(self.request, math.nan, args, keywords)

    def batched(self, shared: Shared) -> tuple[Request, Callable[..., Any]] | None:
        """The gradients of a batch as one batch: see `rg.vmap`."""
        if self.zeros or self.infinite:
            return None
        return self.request, partial(batch_gradient, summed=shared == "sum")


class GradientFunction(LossFunction):
    """The gradient of a reversible function, or of another gradient function: see `grad`."""

    #: the gradient function that this one is the gradient of
    within: GradientFunction | None = None

    def __init__(
        self,
        f: Reversible | Inverse | GradientFunction,
        argnums: Which,
        loss: int | str,
        scale: Scale,
        engine: str,
        format: Format | str | None,
        precision: Precision | None = None,
    ) -> None:
        if not isinstance(f, GradientFunction):
            request = differentiable(f, scale, engine, format, precision, argnums, loss)
            super().__init__("grad", request, made_by(grad, request, loss))
            return
        settings = {"scale": scale, "engine": engine, "format": format, "precision": precision}
        made = grad, (f, deepcopy(argnums), loss), settings
        argnums = f.numbers() if argnums is None else argnums
        function, own = f.reversible(), f.request.changed(engine, format, precision)
        gained = function.parameters[-1].name
        precision = None if own.options is None else own.options.precision
        request = differentiable(function, scale, own.engine, own.format, precision, argnums, gained)
        super().__init__("grad", request, made)
        self.zeros, self.within = {**f.zeros, gained: 0.0}, f
        self.of, self.__name__ = f.of, f"grad({f.__name__})"

    @property
    def losses(self) -> set[str]:
        """The names of the losses of this gradient and of the gradients within."""
        assert self.request.loss is not None
        own = {self.request.function.parameters[self.request.loss.position].name}
        return own if self.within is None else own | self.within.losses

    def reversible(self) -> ReversibleGradient:
        """The gradient as a reversible function. Raises NotDifferentiable unless it is one number."""
        name, r = self.__name__, self.request
        if not is_one(r.argnums):
            refuse(f"`{name}` gives several gradients", "differentiate one: name one argument, as in rg.grad(f, 'x')")
        f = given_function(r)
        x = r.function.parameters[position(f, r.argnums)]
        if isinstance(x.annotation, ArrayAnnotation):
            refuse(f"`{name}` gives an array, the gradient by `{x.name}`", "rg.hessian is its derivative")
        return reversible_gradient(f, r.argnums, self._lost(), keep=_KEEP)

    def _lost(self) -> str:
        """The loss by name."""
        r = self.request
        assert r.loss is not None
        return r.function.parameters[r.loss.position].name + r.loss.path

    def numbers(self) -> list[str]:
        """The arguments that have a derivative by their annotations, without the losses."""
        all_of_them = reversible_gradient(given_function(self.request), None, self._lost())
        assert all_of_them.gradient_of is not None
        names = [all_of_them.parameters[i].name for i in all_of_them.gradient_of.wanted]
        return [name for name in names if name not in self.losses]
