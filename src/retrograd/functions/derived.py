"""Python functions made from a reversible one, such as `rg.grad(f)` and `rg.vmap(f)`, called with its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd.compiler.compiled import Precision
from retrograd.functions.pickling import Uncopied, again
from retrograd.functions.reversible import Inverse, Reversible
from retrograd.isa.diagnostics import InputError, RetrogradError, shorten_traceback


class NotDifferentiable(InputError, TypeError):
    """An argument without a derivative, an argument that cannot be the loss, or cotangents that do not fit."""


#: the call that makes an object again from a pickle: function, arguments, keywords
Made = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Derived(Uncopied):
    """A Python function made from a reversible function `of`, and called with the arguments of that."""

    def __init__(
        self, name: str, of: Reversible | Inverse, call: Callable[[tuple[Any, ...], dict[str, Any]], Any], made: Made
    ) -> None:
        self.of = of
        self.made = made
        self.__name__ = f"{name}({of.__name__})"
        self.__doc__ = f"{self.__name__}, called with the arguments of {of.__name__}."
        self._call = call

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        try:
            return self._call(args, keywords)
        except RetrogradError as error:
            shorten_traceback(error)
            raise

    def with_settings(self, engine: str, format: Any, precision: Precision | None = None) -> Derived:
        """The same function on another engine, in another format, of another precision; "auto" and None leave its own."""
        given = {"engine": engine, "format": format, "precision": precision}
        changed = {name: value for name, value in given.items() if value not in ("auto", None)}
        if not changed:
            return self
        make, args, keywords = self.made
        made: Derived = make(*args, **{**keywords, **changed})
        return made

    def mapped(
        self,
        in_axes: Any,
        engine: str,
        format: Any,
        shared: Any,
        over: Any = None,
        progress: bool | None = None,
        precision: Precision | None = None,
    ) -> Derived | None:
        """The function on each element of a batch, run as one batch; None where it has no such form. See `rg.vmap`."""
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return again, self.made

    def __repr__(self) -> str:
        return f"<{self.__name__}>"
