"""`reversible_gradient`: the gradient as a reversible function, to be called within others."""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any, cast

from retrograd.compiler.frontends.python.source import NOTHING, Parameter
from retrograd.compiler.frontends.specialisation import GradientOf
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import FIXED, LOGNUM, ArrayAnnotation, element_of, is_struct, scalar_of
from retrograd.derivatives._arguments import REAL, Which, direction_of, loss_part, positions, refuse, without_derivative
from retrograd.derivatives._requests import fixed_loss_hint
from retrograd.runtime._binding import fixed
from retrograd.runtime._compilation import with_options
from retrograd.runtime._reversible import Inverse, Reversible

#: words that are kept for cotangents
_KEEP = 1 << 12


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


def reversible_gradient(
    f: Reversible | Inverse, argnums: Which = None, loss: int | str = 0, *, keep: int = _KEEP
) -> ReversibleGradient:
    """df(*args, *d) : d += ∂L/∂args, all else as it was; L is the value that the argument `loss`, or its part `"a.x"` or `"y[1]"`, has after f(*args).

    Inverse: d −= ∂L/∂args. A reversible function like any other: it is called within reversible functions and in loops, inverted, and
    differentiated in its turn. For each argument x of `argnums` (positions or names; None stands for all that are annotated with
    fixed or lognum, or a struct or array that holds some, except the loss) it has one more argument, `d_x`, of x's shape, of fixed
    numbers; ints and bools of a struct stay as they are in `d_x`. All intermediate values are
    uncomputed, so it takes about four times as long as f. In between it keeps the cotangents of the variables that f frees, at
    most `keep` words (RG0809). From outside of reversible functions `rg.grad` is faster.
    Raises NotDifferentiable for arguments that do not exist or have no derivative; for arguments without annotation, when it is compiled.
    Trap: arguments that f changes must be variables of the caller, as for f.
    """
    function, backward = direction_of(f)
    lost_part, chosen = loss_part(f, loss), positions(f, argnums)
    at = lost_part.position
    keep = _words(keep)
    lost = function.parameters[at]
    if not lost_part.steps and lost.annotation is not NOTHING and scalar_of(lost.annotation) != FIXED:
        hint = "a loss is one fixed number"
        if scalar_of(lost.annotation) == LOGNUM:
            hint += f"; {fixed_loss_hint(lost.name)}"
        refuse(f"the loss `{lost.name}` of `{f.__name__}` is {_named(lost.annotation)}", hint)
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
            refuse(f"`{p.name}` of `{f.__name__}` is {_named(p.annotation)}: {found}", "choose others, in `argnums`")
        name = f"d_{p.name}"
        while name in names:
            name += "_"
        names.add(name)
        gains.append(Parameter(name, _gain(p.annotation), variadic=p.variadic))
    of = GradientOf(function, backward, at, tuple(chosen), keep, lost_part.steps, lost_part.path)
    return ReversibleGradient(function, of, (*function.parameters, *gains))


def _made_again(f: Any, wanted: tuple[int, ...], loss: str, keep: int, format: Any, options: Any) -> Any:
    """The function out of a pickle, with its options."""
    return with_options(reversible_gradient(f, wanted, loss, keep=keep), format, options)


def _words(keep: Any) -> int:
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


def _holds_reals(annotation: Any) -> bool:
    """Whether some number of an argument of this annotation has a derivative."""
    return _holds(annotation, REAL)


def _holds(annotation: Any, wanted: Collection[Kind]) -> bool:
    """Whether an argument of this annotation holds numbers of these kinds, stacks aside."""
    annotation = _element(annotation)
    if annotation is complex:
        return Kind.FIXED in wanted
    scalar = scalar_of(annotation)
    if scalar is not None:
        return scalar.kind in wanted
    return is_struct(annotation) and any(_holds(field, wanted) for field in annotation.__retrograd_fields__.values())


def _gain(annotation: Any) -> Any:
    """The annotation of the gradient by an argument of this annotation."""
    if isinstance(annotation, ArrayAnnotation) and scalar_of(annotation.element) is not None:
        return ArrayAnnotation(fixed, annotation.dims)
    return annotation if scalar_of(annotation) is None else fixed


def _named(annotation: Any) -> str:
    return str(element_of(annotation) or getattr(annotation, "__name__", annotation))
