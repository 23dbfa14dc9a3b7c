"""Functions of the language as pickles: by their names, as Python's own functions are.

    pickle(f) = (module, qualified name)        loaded, it is the function of that name there: in the same process, f itself

So a process pool finds `f` where it is defined, under fork and under spawn, and the other process compiles it for itself. What is made
of f (`~f`, `f.with_options(…)`, `rg.grad(f)`, `rg.vmap(f)`, …) is made again of what f is there.

Trap: a function that its module does not name has no such pickle: one defined within a function, or one whose name now leads to another.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from retrograd.isa.diagnostics import Diagnostic, RetrogradError

if TYPE_CHECKING:
    from retrograd.functions.reversible import Reversible

Reduced = tuple[Any, ...]


class NotPicklable(RetrogradError, pickle.PicklingError):
    """Something that another process could not find by its name."""


def refuse(message: str, hint: str | None = None) -> NoReturn:
    """Raise NotPicklable RG0605."""
    raise NotPicklable(Diagnostic("RG0605", message, hint=hint))


def reduced_function(f: Reversible) -> Reduced:
    """How a function of the language is found or made again. Raises NotPicklable."""
    found = _named(f.__module__, f.__qualname__)
    if found is f:
        return loaded, (f.__module__, f.__qualname__)
    from retrograd.functions.reversible import Reversible

    if isinstance(f.read_from, Reversible):
        return with_options, (f.read_from, f.format, f.options)
    if found is f.fn:
        # `g = reversible(h)`: the name leads to what was decorated.
        return decorated, (f.__module__, f.__qualname__, f.format, f.options)
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
    """What a module has under a name, the module imported. Raises AttributeError, ImportError."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def decorated(module: str, name: str, format: Any, options: Any) -> Reversible:
    """A function of the language, of a Python function in a module."""
    from retrograd.functions.reversible import Reversible

    return Reversible(loaded(module, name), format, options)


def with_options(f: Reversible, format: Any, options: Any) -> Reversible:
    """The function compiled otherwise."""
    return f.with_options(format=format, **vars(options))


def inverse_of(f: Reversible) -> Any:
    return ~f


def gradient_of(f: Any, wanted: tuple[int, ...], loss: int, keep: int, format: Any, options: Any) -> Any:
    """`rg.reversible_gradient(f, …)`, compiled so."""
    from retrograd.differentiation import reversible_gradient

    return with_options(reversible_gradient(f, wanted, loss, keep=keep), format, options)


def again(make: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """make(*args, **keywords): what was made of a function, made again."""
    return make(*args, **keywords)
