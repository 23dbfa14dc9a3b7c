"""`@functional`: functions whose body is an expression of values, with derivatives of functions as values inside."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, overload

from retrograd.compiler.compiled import Options, Precision
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.function import FunctionalSource
from retrograd.compiler.frontends.functional.marshalling import Marshalling
from retrograd.compiler.frontends.functional.types import INT, Tuple, Type
from retrograd.compiler.frontends.python.source import Parameter
from retrograd.compiler.language.values import Structure, Unfilled
from retrograd.differentiation import grad, hessian, jvp, vjp
from retrograd.isa.diagnostics import RetrogradError, api_boundary, shorten_traceback
from retrograd.isa.words import Format
from retrograd.runtime._binding import fixed
from retrograd.runtime._reversible import Reversible, run

FunctionalSource.operators = {(f.__module__, f.__qualname__): f.__name__ for f in (grad, vjp, jvp, hessian)}
FunctionalSource.conversions = {(fixed.__module__, fixed.__qualname__): "fixed"}


class Functional(FunctionalSource, Reversible):
    """A functional function: `f(*args)` is its value. As a reversible function it is `out += f(*args)`, and its last parameter is `out`."""

    def __init__(
        self, fn: Callable[..., Any], format: Format | str | None = None, options: Options | None = None
    ) -> None:
        super().__init__(fn, format, options)
        backward = (
            f"As a reversible function it is `out += {self.__name__}(…)`, which (~{self.__name__})(*args, out) undoes."
        )
        self.__doc__ = f"{inspect.cleandoc(fn.__doc__)}\n\n{backward}" if fn.__doc__ else backward

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        try:
            found = self._request.called(args, keywords)
        except RetrogradError as error:
            shorten_traceback(error)
            raise
        return _formed(self.result_type, iter(found[self.first_result :]))

    def completed(self, values: list[Any], format: Any) -> list[Any]:
        """The arguments with room for lists and data classes among the results: a run of `ResultSizes` counts their words."""
        if all(values[k] is not None for k in self._open):
            return values
        counted = run(self._sizes, *values[: self.first_result], format=format, precision="ignore").values
        sizes = iter(counted[self.first_result :])
        room = {k: Unfilled(next(sizes), next(sizes)) for k in self._open}
        return [room[k] if v is None and k in room else v for k, v in enumerate(values)]

    @cached_property
    def _open(self) -> tuple[int, ...]:
        """The positions of results that are lists or data classes."""
        return tuple(
            k for k, p in enumerate(self.parameters) if k >= self.first_result and isinstance(p.annotation, Structure)
        )

    @cached_property
    def _sizes(self) -> ResultSizes:
        return ResultSizes(self)

    @api_boundary
    def with_options(self, **changes: Any) -> Functional:
        """The same function compiled otherwise: `level`, `stack`, `heap`, `forget`, `format`."""
        format = changes.pop("format", self.format)
        if "forget" in changes:
            changes["forget"] = _names(changes["forget"])
        other = Functional(self.fn, format, self.options.changed(changes))
        other.read_from = self
        return other


class ResultSizes(Functional):
    """The function of the same arguments whose values are how many numbers and integers each list and data class of the result has."""

    def __init__(self, of: Functional) -> None:
        super().__init__(of.fn, of.format, of.options)
        self.read_from = of

    @cached_property
    def result_parameters(self) -> tuple[Parameter, ...]:
        found = [p.name for p in super().result_parameters if isinstance(p.annotation, Structure)]
        return tuple(Parameter(f"{name}_{part}", int, 0) for name in found for part in ("numbers", "integers"))

    def marshalled(self, definition: core.Lambda, types: Sequence[Type]) -> tuple[core.Lambda, Type]:
        made = Marshalling(definition.at).sizes(definition, types, self.result_type)
        return made, Tuple((INT,) * len(self.result_parameters))


def _names(of: Collection[str]) -> frozenset[str]:
    return frozenset((of,) if isinstance(of, str) else of)


def _formed(t: Type, words: Iterator[Any]) -> Any:
    """A result of a type, from its words."""
    return tuple(_formed(item, words) for item in t.items) if isinstance(t, Tuple) else next(words)


@overload
def functional(fn: Callable[..., Any], /) -> Functional: ...


@overload
def functional(
    *,
    format: Format | str | None = None,
    level: int = 1,
    stack: int = 1 << 16,
    heap: int = 1 << 16,
    forget: Collection[str] = (),
    precision: Precision = "warn",
) -> Callable[[Callable[..., Any]], Functional]: ...


def functional(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    format: Format | str | None = None,
    level: int = 1,
    stack: int = 1 << 16,
    heap: int = 1 << 16,
    forget: Collection[str] = (),
    precision: Precision = "warn",
) -> Functional | Callable[[Callable[..., Any]], Functional]:
    """f(x …) = the value of the expression that f returns; as a reversible function `out += f(x …)`, which `~f` undoes.

    The body is an expression: `=` names values, `if`, `match`, `def` and `lambda` are as in Python, and nothing is ever changed. Inside,
    functions are values, lists and `@rg.data` classes hold values, and `rg.grad(g)`, `rg.vjp(g)`, `rg.jvp(g)`, `rg.hessian(g)` are functions again,
    at any depth. Types are inferred at each call. Outside, `rg.grad(f)` and all other functions take f like a reversible function.
    `stack`, `heap`: words for recursion, and for the cells and the history of a run. `forget`: names of functions whose calls are computed,
    copied and uncomputed; `rg.advise(f, *args, memory=…)` finds them. `precision`: see `Options`. Raises CompileError when it is first called.
    Trap: the whole run stays in the heap until it is uncomputed, so memory grows with the number of calls.

    >>> import retrograd as rg
    >>> @rg.functional
    ... def slope(x: rg.fixed):
    ...     cube = lambda t: t * t * t
    ...     return rg.grad(cube)(x)
    >>> slope(2.0), rg.grad(slope, "x")(2.0)
    (12.0, 12.0)
    """
    options = Options(level, stack=stack, heap=heap, forget=_names(forget), precision=precision)
    if fn is not None:
        return Functional(fn, format, options)
    return lambda f: Functional(f, format, options)
