"""The compiled versions of a function of the language.

    compiled_for(types, format, options)        compiled at most once for each combination

A version is used again as long as the values that the function captured are the same (`Captures.hold`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from retrograd.compiler.compiled import Compiled, Options, compile_function, discarding_cotangents
from retrograd.compiler.frontends.python.captures import static_key
from retrograd.compiler.frontends.python.source import SourceFunction
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.types import StaticType, Type
from retrograd.isa.diagnostics import api_boundary
from retrograd.isa.words import Q32_32, Format, format_of
from retrograd.values.arrays import WordArray
from retrograd.values.binding import bind, types_from_annotations, types_of
from retrograd.values.named import named_tuple

# The library compiles functions itself, so it is imported at the first use of a function of it under another name.
intrinsics.load_library = lambda: importlib.import_module("retrograd.library.elementary")

#: combinations of types, format and options for which a function keeps compiled code; versions of each, by captured values
_KEPT = 64
_VARIANTS = 4
#: the types of these numbers do not depend on their values; those of these arrays depend on shape and dtype
_NUMBERS = frozenset({bool, int, float, np.bool_, np.int64, np.float64})
_ARRAYS = frozenset({np.ndarray, WordArray})
#: combinations of Python types, shapes and dtypes for which a function keeps the types of the language
_SHAPES = 256
_default_format = Q32_32


def use_format(format: Format | str) -> Format:
    """Set the number format of all functions that name none. Returns the previous one. Raises InputError RG0604."""
    global _default_format
    previous, _default_format = _default_format, format_of(format)
    return previous


def format_or_default(format: Format | str | None) -> Format:
    """The format, or where it is None that of all functions that name none. Raises InputError RG0604."""
    return _default_format if format is None else format_of(format)


class Compilable(SourceFunction):
    """A function of the language with its compiled versions."""

    def __init__(
        self, fn: Callable[..., Any], format: Format | str | None = None, options: Options | None = None
    ) -> None:
        super().__init__(fn)
        self.format = None if format is None else format_of(format)
        self.options = options or Options()
        #: by types, format and options; several where captured values differ, the newest first
        self._versions: dict[Any, tuple[Compiled, ...]] = {}
        #: Python types of all arguments, with shapes and dtypes -> their types in the language, where one determines the other
        self._types: dict[tuple[Any, ...], tuple[Type, ...]] = {}
        #: the types, format and options of the last call, and the version for them
        self._last: tuple[Any, ...] = (None, None, None, None)

    @api_boundary
    def compiled(self, *args: Any, **keywords: Any) -> Compiled:
        """The program for arguments like these; without any, for the annotated types. Raises CompileError, InputError."""
        if args or keywords or not self.parameters:
            types = self.types_of(bind(self, args, keywords))
        else:
            types = types_from_annotations(self)
        return self.compiled_for(types)

    def types_of(self, values: Sequence[Any]) -> tuple[Type, ...]:
        """The types of the arguments, given in the order of the parameters. Raises InputError RG0603."""
        given = _given(values)
        found = None if given is None else self._types.get(given)
        if found is None:
            found = types_of(self, values)
            if given is not None and StaticType not in map(type, found):
                if len(self._types) >= _SHAPES:
                    self._types.clear()
                self._types[given] = found
        return found

    def format_for(self, format: Format | str | None = None) -> Format:
        """The number format: the given one, else the function's own, else that of all functions. Raises InputError RG0604."""
        return format_or_default(self.format if format is None else format)

    def compiled_for(
        self, types: tuple[Type, ...], format: Format | str | None = None, options: Options | None = None
    ) -> Compiled:
        """The program for these types and for the values captured now. Raises CompileError."""
        w = self.format or _default_format if format is None else format_of(format)
        chosen = options or self.options
        last = self._last
        # To compare the identity of three objects takes a tenth of the time of a look-up.
        if last[0] is types and last[1] is w and last[2] is chosen and last[3].lowered.captures.hold():
            newest: Compiled = last[3]
            return newest
        key = (types if StaticType not in map(type, types) else tuple(map(_hashable, types)), w, chosen)
        kept = self._versions.get(key, ())
        for found in kept:
            if found.lowered.captures.hold():
                self._last = types, w, chosen, found
                return found
        if chosen.cotangents:
            found = discarding_cotangents(self.compiled_for(types, w, replace(chosen, cotangents=False)))
        else:
            found = compile_function(self, types, w, chosen)
        if key not in self._versions and len(self._versions) >= _KEPT:
            del self._versions[next(iter(self._versions))]
        self._versions[key] = (found, *kept[: _VARIANTS - 1])
        return found

    @cached_property
    def results(self) -> Callable[..., Any]:
        """The class of named tuples that a run of the function returns."""
        return named_tuple(self.__name__, tuple(p.name for p in self.parameters))

    def latest(self) -> Compiled | None:
        """The version that was compiled last, of all that are kept."""
        return next(reversed(self._versions.values()))[0] if self._versions else None


def _given(values: Sequence[Any]) -> tuple[Any, ...] | None:
    """The Python types of the values, with shapes and dtypes of arrays; None where these do not determine their types."""
    types = tuple(map(type, values))
    if _NUMBERS.issuperset(types):
        return types
    found: list[Any] = []
    for t, value in zip(types, values, strict=True):
        if t in _NUMBERS:
            found.append(t)
        elif t in _ARRAYS and value.dtype.kind in "iufb":
            found += (t, value.shape, value.dtype)
        else:
            return None
    return tuple(found)


def _hashable(t: Type) -> Any:
    """A type as part of a key: a static value may have no hash."""
    return ("static", static_key(t.value)) if isinstance(t, StaticType) else t
