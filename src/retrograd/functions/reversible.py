"""`@reversible`: functions that run forward and backward, and show what they are compiled to."""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import MethodType
from typing import TYPE_CHECKING, Any, cast, overload

from retrograd.compiler.compiled import Compiled, Options, compile_function, discarding_cotangents
from retrograd.compiler.frontends.python.sources.captures import static_key
from retrograd.compiler.frontends.python.sources.source import SourceFunction
from retrograd.compiler.language.types import StaticType, Type
from retrograd.isa.words import Q32_32, Format, format_of
from retrograd.values.marshal import bind, from_words, to_words, types_from_annotations, types_of

if TYPE_CHECKING:
    from retrograd.compiler.lower import Lowered
    from retrograd.isa.program import Program

#: combinations of types, format and options that one function keeps compiled code for; versions of each, by what they captured
_KEPT = 64
_VARIANTS = 4
_default_format = Q32_32


def use_format(format: Format | str) -> Format:
    """Make a format, or the one of that name, the format of all functions that name no other; the previous one is returned.

    Raises InputError RG0604.
    """
    global _default_format
    previous, _default_format = _default_format, format_of(format)
    return previous


class _Signature:
    """`__signature__` for `help` and `inspect`: the parameters as written; a call returns a named tuple of all arguments."""

    def __get__(self, instance: Reversible | Inverse | None, owner: type) -> inspect.Signature:
        if instance is None:
            raise AttributeError("the signature belongs to each function, not to its class")
        function = ~instance if isinstance(instance, Inverse) else instance
        written = inspect.signature(function.fn)
        shown = dict(written.parameters)
        if function.gradient_of is not None:
            kind = next(reversed(shown.values())).kind
            for p in function.parameters[len(shown) :]:
                shown[p.name] = inspect.Parameter(p.name, kind, annotation=p.annotation)
        return written.replace(parameters=[*shown.values()], return_annotation=tuple)


def _documented(doc: str | None, inverse: str) -> str:
    """The docstring, and how to call the inverse."""
    call = f"Runs backward as {inverse}(*results); both directions return all arguments."
    return f"{inspect.cleandoc(doc)}\n\n{call}" if doc else call


class Reversible(SourceFunction):
    """A function of the language: `f(*args)` runs it, `(~f)(*args)` runs it backward; both return all arguments.

    `~~f is f`. The function is compiled when it is first called with arguments of these types and shapes, and kept
    as long as what it captured is the same.
    """

    __signature__ = _Signature()

    def __init__(
        self, fn: Callable[..., Any], format: Format | str | None = None, options: Options | None = None
    ) -> None:
        super().__init__(fn)
        #: `inspect.getsource` and IPython's `f??` find the source by it
        self.__wrapped__ = fn
        self.__doc__ = _documented(fn.__doc__, f"(~{self.__name__})")
        self.format = None if format is None else format_of(format)
        self.options = options or Options()
        #: by types, format and options; several where what they captured differs, the newest first
        self._compiled: dict[Any, tuple[Compiled, ...]] = {}
        self._inverse = Inverse(self)

    # ------------------------------------------------------------------ calls

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        from retrograd.functions.execution import call

        return call(self, args, keywords, backward=False)

    def __invert__(self) -> Inverse:
        return self._inverse

    @property
    def inverse(self) -> Inverse:
        """The function run backward."""
        return self._inverse

    def each(self, *args: Any, **keywords: Any) -> Any:
        """Within reversible functions: the function on every element of its arrays' first axis."""
        from retrograd.compiler.language.intrinsics import Intrinsic

        Intrinsic(f"{self.__name__}.each", "statement", "")(*args, **keywords)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    # ------------------------------------------------------------------ what it becomes

    def compiled(self, *args: Any, **keywords: Any) -> Compiled:
        """The program for arguments like these; without any, for what the annotations say. Raises CompileError, InputError."""
        if args or keywords or not self.parameters:
            types = types_of(self, bind(self, args, keywords))
        else:
            types = types_from_annotations(self)
        return self.compiled_for(types)

    def format_for(self, format: Format | str | None = None) -> Format:
        """The format that it is compiled in: the one asked for, its own, or that of all functions. Raises InputError RG0604."""
        return self.format or _default_format if format is None else format_of(format)

    def compiled_for(
        self, types: tuple[Type, ...], format: Format | str | None = None, options: Options | None = None
    ) -> Compiled:
        """The program for these types and for what is captured now, compiled at most once."""
        w, chosen = self.format_for(format), options or self.options
        key = (tuple(_key(t) for t in types), w, chosen)
        kept = self._compiled.get(key, ())
        for found in kept:
            if found.lowered.captures.hold():
                return found
        if chosen.cotangents:
            found = discarding_cotangents(self.compiled_for(types, w, replace(chosen, cotangents=False)))
        else:
            found = compile_function(self, types, w, chosen)
        if key not in self._compiled and len(self._compiled) >= _KEPT:
            del self._compiled[next(iter(self._compiled))]
        self._compiled[key] = (found, *kept[: _VARIANTS - 1])
        return found

    def latest(self) -> Compiled | None:
        """What was compiled last, of all types, formats and options that are kept."""
        return next(reversed(self._compiled.values()))[0] if self._compiled else None

    def program(self, *args: Any, **keywords: Any) -> Program:
        """What machines run."""
        return self.compiled(*args, **keywords).program

    def lower(self, *args: Any, **keywords: Any) -> Listing:
        """The reversible IR, optimised: `as_text()` reads it, `~` inverts it."""
        return Listing(self.compiled(*args, **keywords).module)

    def assembly(self, *args: Any, **keywords: Any) -> str:
        """The program as assembly text, with the user's lines as comments."""
        from retrograd.functions.listing import assembly

        return assembly(self.compiled(*args, **keywords))

    def with_options(self, **changes: Any) -> Reversible:
        """The same function compiled otherwise: `level`, `erase`, `stack`, `format`."""
        format = changes.pop("format", self.format)
        other = Reversible(self.fn, format, replace(self.options, **changes))
        other.read_from = self
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        from retrograd.functions.pickling import reduced_function

        return reduced_function(self)

    def __deepcopy__(self, memo: Any) -> Reversible:
        return self  # as Python's own functions

    def __copy__(self) -> Reversible:
        return self

    def _repr_html_(self) -> str:
        from retrograd.functions.listing import html

        return html(self)


class Inverse:
    """A reversible function, run backward."""

    #: for the compiler, which cannot import this class
    __retrograd_inverse__ = True
    __signature__ = _Signature()

    def __init__(self, of: Reversible) -> None:
        self.__retrograd_inverse_of__ = of
        self.__name__, self.__module__ = f"~{of.__name__}", of.__module__
        self.__wrapped__ = of.fn
        self.__doc__ = f"The inverse of {of.__name__}. {_documented(of.fn.__doc__, of.__name__)}"

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        from retrograd.functions.execution import call

        return call(self.__retrograd_inverse_of__, args, keywords, backward=True)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __invert__(self) -> Reversible:
        return self.__retrograd_inverse_of__

    @property
    def inverse(self) -> Reversible:
        """The function itself."""
        return self.__retrograd_inverse_of__

    def __reduce__(self) -> tuple[Any, ...]:
        from retrograd.functions.pickling import inverse_of

        return inverse_of, (self.__retrograd_inverse_of__,)

    def __deepcopy__(self, memo: Any) -> Inverse:
        return self

    def __copy__(self) -> Inverse:
        return self

    def __repr__(self) -> str:
        return f"<inverse of {self.__retrograd_inverse_of__!r}>"


class Listing:
    """A module of the IR, to be read."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def as_text(self) -> str:
        """The IR as indented text."""
        from retrograd.compiler.ir.printer import as_text

        return as_text(self.module)

    def __invert__(self) -> Listing:
        return Listing(~self.module)

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return self.as_text()


def _key(t: Type) -> Any:
    return ("static", static_key(t.value)) if isinstance(t, StaticType) else t


@overload
def reversible(fn: Callable[..., Any], /) -> Reversible: ...


@overload
def reversible(
    *, format: Format | str | None = None, level: int = 1, erase: bool | frozenset[str] = False, stack: int = 1 << 16
) -> Callable[[Callable[..., Any]], Reversible]: ...


def reversible(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    format: Format | str | None = None,
    level: int = 1,
    erase: bool | frozenset[str] = False,
    stack: int = 1 << 16,
) -> Reversible | Callable[[Callable[..., Any]], Reversible]:
    """Read a function as reversible source: it is checked and compiled when first called, never executed by Python.

    `format`: of its numbers, as rg.Format(64, 48) or "Q16.48"; `level`, `erase`, `stack`: see `Options`.
    """
    options = Options(level, erase, stack)
    if fn is not None:
        return Reversible(fn, format, options)
    return lambda f: Reversible(f, format, options)


def results(function: Reversible, values: list[Any]) -> Any:
    """All arguments after a run, by position and by name."""
    names = [p.name for p in function.parameters]
    return tuple_of(function.__name__, tuple(names))(*values)


@cache
def tuple_of(name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    """A class of named tuples: to make one takes as long as a short run."""
    made = cast("Any", namedtuple)(name, fields, rename=True)
    # No module names the class: another process makes it again.
    made.__reduce__ = lambda self: (tuple_with, (name, fields, tuple(self)))
    return cast("Callable[..., Any]", made)


def tuple_with(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """A named tuple, out of a pickle."""
    return tuple_of(name, fields)(*values)


__all__ = ["Inverse", "Listing", "Lowered", "Reversible", "from_words", "reversible", "to_words", "use_format"]
