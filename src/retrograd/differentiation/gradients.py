"""Gradients of one number, as Python functions: `grad`, `value_and_grad`."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Literal

from retrograd.compiler.compiled import Precision
from retrograd.compiler.language.types import ArrayAnnotation
from retrograd.differentiation.arguments import Which, direction_of, is_one, position, refuse
from retrograd.differentiation.batches import batch_gradient
from retrograd.differentiation.gradient_requests import GradientRequest
from retrograd.differentiation.reversible_gradients import ReversibleGradient, reversible_gradient
from retrograd.differentiation.scales import Scale
from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError
from retrograd.isa.words import Format
from retrograd.runtime._batch_arguments import Axes
from retrograd.runtime._batches import Mapped, Shared
from retrograd.runtime._distribution import Distribution
from retrograd.runtime._reversible import Derived, Inverse, Made, Reversible

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
    requested = GradientRequest(f, argnums, loss, scale, engine, format, True, precision)
    call, args, settings = value_and_grad, *requested.given
    return LossFunction("value_and_grad", requested, (call, args, {**settings, "traps": traps}), traps == "inf")


class LossFunction(Derived):
    """A Python function of the loss of a reversible function: its gradient, with or without its value."""

    def __init__(self, name: str, requested: GradientRequest, made: Made, infinite: bool = False) -> None:
        super().__init__(name, requested.f, self.differentiated_or_infinite if infinite else self.differentiated, made)
        self.requested = requested
        #: whether it is infinite where the loss or its gradient has no number
        self.infinite = infinite
        #: initial values of arguments that the caller does not give
        self.zeros: dict[str, float] = {}

    def differentiated(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """The gradient at these arguments: see `GradientRequest.called`."""
        return self.requested.called(args, {**keywords, **self.zeros} if self.zeros else keywords)

    def differentiated_or_infinite(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """The same, or (∞, NaN): see `value_and_grad`."""
        try:
            return self.differentiated(args, keywords)
        except RetrogradError as error:
            if error.code not in _NO_NUMBER:
                raise
            return math.inf, self.requested.filled(math.nan, args, keywords)

    def mapped(
        self,
        in_axes: Axes,
        engine: str,
        format: Any,
        shared: Shared,
        over: Distribution | None = None,
        progress: bool | None = None,
        precision: Precision | None = None,
    ) -> Derived | None:
        """The gradients of a batch as one batch: see `rg.vmap`."""
        if self.zeros or self.infinite:
            return None
        each = self.with_settings(engine, format, precision)
        assert isinstance(each, LossFunction)

        def called(args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            return batch_gradient(each, each.requested, args, keywords, in_axes, shared, over, progress)

        return Mapped(self, called, in_axes, engine, format, shared, precision)


class GradientFunction(LossFunction):
    """The gradient of a reversible function, or of another gradient function: see `grad`."""

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
        argnums = deepcopy(argnums)  # the caller may change a list
        made = grad, (f, argnums, loss), {"scale": scale, "engine": engine, "format": format, "precision": precision}
        zeros: dict[str, float] = {}
        function: Reversible | Inverse
        if isinstance(f, GradientFunction):
            argnums = f.numbers() if argnums is None else argnums
            function = f.reversible()
            loss = function.parameters[-1].name
            zeros = {**f.zeros, loss: 0.0}
            own = f.requested.run
            engine, format = own.engine if engine == "auto" else engine, own.format if format is None else format
            precision = own.options.precision if precision is None and own.options is not None else precision
        else:
            function = f
        super().__init__(
            "grad", GradientRequest(function, argnums, loss, scale, engine, format, precision=precision), made
        )
        self.zeros = zeros
        #: the names of the losses of this gradient and of the gradients within
        self.losses = {direction_of(function)[0].parameters[self.requested.loss].name}
        if isinstance(f, GradientFunction):
            self.of, self.__name__ = f.of, f"grad({f.__name__})"
            self.losses |= f.losses

    def reversible(self) -> ReversibleGradient:
        """The gradient as a reversible function. Raises NotDifferentiable unless it is one number."""
        name, r = self.__name__, self.requested
        if not is_one(r.argnums):
            refuse(f"`{name}` gives several gradients", "differentiate one: name one argument, as in rg.grad(f, 'x')")
        x = r.run.function.parameters[position(r.f, r.argnums)]
        if isinstance(x.annotation, ArrayAnnotation):
            refuse(f"`{name}` gives an array, the gradient by `{x.name}`", "rg.hessian is its derivative")
        return reversible_gradient(r.f, r.argnums, self._lost(), keep=_KEEP)

    def _lost(self) -> str:
        """The loss by name."""
        r = self.requested
        return direction_of(r.f)[0].parameters[r.loss].name + r.part.path

    def numbers(self) -> list[str]:
        """The arguments that have a derivative by their annotations, without the losses."""
        all_of_them = reversible_gradient(self.requested.f, None, self._lost())
        assert all_of_them.gradient_of is not None
        names = [all_of_them.parameters[i].name for i in all_of_them.gradient_of.wanted]
        return [name for name in names if name not in self.losses]
