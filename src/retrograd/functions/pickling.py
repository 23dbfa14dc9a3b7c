"""Pickles of functions of the language: by name, as Python's own functions are pickled.

    pickle(f) = (module, qualified name)        in the same process it is loaded as f itself

A process pool, under fork or spawn, finds `f` where it is defined and compiles it in its own process. Objects made from f
(`~f`, `f.with_options(…)`, `rg.grad(f)`, `rg.vmap(f)`, …) are pickled as the call that makes them.

Trap: a function defined within a function has no such name, and a name may have been bound to another object since;
both raise NotPicklable.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from retrograd.functions.compilation import Compilable
from retrograd.isa.diagnostics import Diagnostic, RetrogradError

Reduced = tuple[Any, ...]


class Uncopied:
    """An object of which `copy` gives the object itself, as of Python's own functions."""

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


class NotPicklable(RetrogradError, pickle.PicklingError):
    """The object has no name by which another process could find it."""


def refuse(message: str, hint: str | None = None) -> NoReturn:
    """Raise NotPicklable RG0605."""
    raise NotPicklable(Diagnostic("RG0605", message, hint=hint))


def reduced_function(f: Compilable) -> Reduced:
    """`f.__reduce__()`: f is found by its name, or made again from another object that has one. Raises NotPicklable."""
    found = _named(f.__module__, f.__qualname__)
    if found is f:
        return loaded, (f.__module__, f.__qualname__)
    if isinstance(f.read_from, Compilable):
        return with_options, (f.read_from, f.format, f.options)
    if found is f.fn:
        # `g = reversible(h)`: the name leads to the Python function h.
        return decorated, (type(f), f.__module__, f.__qualname__, f.format, f.options)
    if "<locals>" in f.__qualname__:
        refuse(
            f"`{f.__name__}` is defined within a function, where another process cannot find it",
            "Define it at the top of a module, and pass what it captures as arguments.",
        )
    where = f"{f.__module__}.{f.__qualname__}"
    if found is None:
        refuse(f"there is no `{where}`, by which another process would find `{f.__name__}`")
    refuse(f"`{where}` is not this function any more: it was defined anew", "Pickle the new one.")


def need_name(f: Any) -> None:
    """Raise NotPicklable for a Python function that has no name of its own in its module."""
    name = getattr(f, "__qualname__", "")
    if "<locals>" in name or "<lambda>" in name:
        what = "a lambda" if "<lambda>" in name else f"`{f.__name__}`, defined within a function,"
        refuse(f"{what} cannot be found by another process", "Define a function at the top of a module.")


def _named(module: str | None, name: str) -> Any:
    found: Any = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def loaded(module: str, name: str) -> Any:
    """The object of this name in a module, the module imported. Raises AttributeError, ImportError."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def decorated(made: Callable[..., Any], module: str, name: str, format: Any, options: Any) -> Any:
    """The function of the language made from a Python function in a module."""
    return made(loaded(module, name), format, options)


def with_options(f: Any, format: Any, options: Any) -> Any:
    """The function compiled otherwise."""
    return f.with_options(format=format, **vars(options))


def inverse_of(f: Any) -> Any:
    return ~f


def again(make: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """make(*args, **keywords): an object made from a function, made again."""
    return make(*args, **keywords)
