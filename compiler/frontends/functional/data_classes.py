"""Data classes: the sums and recursive types of functional programs.

    @rg.data
    class Leaf: value: fixed
    @rg.data
    class Node: left: "Leaf | Node"; right: "Leaf | Node"

A value lies in a cell of the heap: the number of its class, then its fields. Annotations are evaluated when they are needed, so
they may name classes that are defined later.
"""

from __future__ import annotations

import inspect
import types
from typing import Any, Union, get_args, get_origin

from retrograd.compiler.frontends.constants import annotations_of
from retrograd.compiler.frontends.functional.types import FIXED, Data, List, Tuple, Type, Word
from retrograd.compiler.language.types import scalar_of
from retrograd.isa.diagnostics import CompileError, Diagnostic

_MARK = "__retrograd_data__"


def data(cls: type) -> type:
    """A class of values in functional programs: its annotated fields, in order.

    In Python, it is a class of named fields with positional constructor. Raises CompileError RG0722 for anything but a class of
    annotated fields.
    """
    if not isinstance(cls, type):
        name = getattr(cls, "__name__", repr(cls))
        raise CompileError(Diagnostic("RG0722", f"`{name}` is no class", hint="Write `@rg.data` above a class."))
    if cls.__bases__ != (object,):
        raise CompileError(
            Diagnostic("RG0722", f"`{cls.__name__}` is derived from another class", hint="A data class stands alone.")
        )
    names = tuple(annotations_of(cls))
    frame = inspect.currentframe()
    # The public function may be called through the boundary that shortens tracebacks.
    while frame is not None and frame.f_globals.get("__name__") in (__name__, "retrograd.isa.diagnostics"):
        frame = frame.f_back
    around = ({}, {}) if frame is None else (frame.f_globals, frame.f_locals)
    setattr(cls, _MARK, (names, *around))
    setattr(cls, "__match_args__", names)  # noqa: B010

    def __init__(self: Any, *args: Any) -> None:
        if len(args) != len(names):
            raise TypeError(f"{cls.__name__} has the fields {', '.join(names)}")
        for name, value in zip(names, args, strict=True):
            setattr(self, name, value)

    def __repr__(self: Any) -> str:
        return f"{cls.__name__}({', '.join(repr(getattr(self, name)) for name in names)})"

    def __eq__(self: Any, other: object) -> bool:
        return type(other) is cls and all(getattr(self, n) == getattr(other, n) for n in names)

    setattr(cls, "__init__", __init__)  # noqa: B010
    setattr(cls, "__repr__", __repr__)  # noqa: B010
    setattr(cls, "__eq__", __eq__)  # noqa: B010
    setattr(cls, "__hash__", object.__hash__)  # noqa: B010
    return cls


def fields_of(cls: type) -> dict[str, Any] | None:
    """Name -> annotation of each field, as written; None for a class that is no data class."""
    marked = cls.__dict__.get(_MARK)
    return None if marked is None else {n: annotations_of(cls)[n] for n in marked[0]}


def field_types(cls: type) -> tuple[Type, ...]:
    """The types of the fields. Raises CompileError RG0722."""
    return tuple(type_of(a, cls, name) for name, a in (fields_of(cls) or {}).items())


def type_of(annotation: Any, cls: type | None = None, name: str = "") -> Type:
    """The type that an annotation names. Raises CompileError RG0722."""
    try:
        return _type(annotation, cls)
    except (TypeError, NameError, SyntaxError, AttributeError) as error:
        where = f"the field `{name}` of `{cls.__name__}`" if cls is not None else f"`{name}`"
        hint = "Fields are fixed, int, bool, tuple[…], list[…], data classes, and `A | B` of data classes."
        raise CompileError(Diagnostic("RG0722", f"{where}: {error}", hint=hint)) from None


def _type(annotation: Any, cls: type | None) -> Type:
    # Text in a module with `from __future__ import annotations` is text twice.
    while isinstance(annotation, str):
        names, around = ({}, {}) if cls is None else cls.__dict__[_MARK][1:]
        own = {} if cls is None else {cls.__name__: cls}
        # The annotation is the user's own Python, written as text because it names a class that is defined later.
        annotation = eval(annotation, names, {**own, **around})
    scalar = scalar_of(annotation)
    if scalar is not None:
        return Word(scalar.kind)
    if annotation is float:
        return FIXED
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        return Tuple(tuple(_type(a, cls) for a in args))
    if origin is list and len(args) == 1:
        return List(_type(args[0], cls))
    if origin in (Union, types.UnionType):
        parts = [_type(a, cls) for a in args]
        if all(isinstance(p, Data) for p in parts):
            return Data(frozenset(c for p in parts if isinstance(p, Data) for c in p.classes))
    if isinstance(annotation, type) and fields_of(annotation) is not None:
        return Data(frozenset((annotation,)))
    raise TypeError(f"{annotation!r:.60} is no type of the functional language")
