"""Trees of Python's values for structs: mappings, data classes, named tuples, and lists with an item for each field.

    restored(t, {"w": …, "b": …}, words_as_a_struct)  =  {"w": …, "b": …}

A struct argument may be given as a tree, and the results and gradients for it have the form that was given. A dict, a data class
or a list without annotation is a struct of its own, made by `struct_of_tree`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import (
    ArrayAnnotation,
    ArrayType,
    ScalarType,
    StackAnnotation,
    StackType,
    StaticType,
    StructType,
    Type,
    is_struct,
    item_name,
    static,
)
from retrograd.compiler.language.values import FormType
from retrograd.values.numbers import fixed, lognum, uint

_ANNOTATIONS = {Kind.INT: int, Kind.UINT: uint, Kind.BOOL: bool, Kind.FIXED: fixed, Kind.LOGNUM: lognum}


def parts_of(value: Any) -> dict[str, Any] | None:
    """The values of a tree's root by name; None for a value that is no tree. Items of lists and tuples are named by `item_name`."""
    if isinstance(value, Mapping):
        return dict(value) if all(isinstance(key, str) for key in value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {f.name: getattr(value, f.name) for f in fields} if all(f.init for f in fields) else None
    if isinstance(value, list | tuple):
        names = getattr(value, "_fields", None) or [item_name(i) for i in range(len(value))]
        return dict(zip(names, value, strict=True))
    return None


def is_tree(value: Any) -> bool:
    """Whether a value without annotation is a struct: a tree with names, or a list that holds trees or arrays of several shapes."""
    if isinstance(value, Mapping) or hasattr(value, "_fields") or parts_of(value) is None:
        return parts_of(value) is not None
    if not isinstance(value, list | tuple):
        return True
    shapes = {one.shape for one in value if isinstance(one, np.ndarray)}
    several = len(shapes) > 1 or (bool(shapes) and any(not isinstance(one, np.ndarray) for one in value))
    return several or any(not isinstance(one, list | tuple) and parts_of(one) is not None for one in value)


def fields_of(t: StructType, value: Any) -> dict[str, Any] | None:
    """The value's parts by the names of a struct's fields; None where it has not exactly these fields."""
    parts = parts_of(value)
    if parts is None:
        return None
    names = [name for name, _ in t.fields]
    if isinstance(value, list | tuple) and not hasattr(value, "_fields") and len(value) == len(names):
        return dict(zip(names, value, strict=True))
    return {name: parts[name] for name in names} if parts.keys() == set(names) else None


def struct_of_tree(kind: str, fields: tuple[tuple[str, Type], ...]) -> StructType:
    """A struct of these fields, the same class for the same fields. `kind`: the name of the class."""
    return StructType(_class(kind, fields), fields)


@lru_cache(maxsize=1024)
def _class(kind: str, fields: tuple[tuple[str, Type], ...]) -> type:
    made = dataclasses.make_dataclass(kind, [name for name, _ in fields], frozen=True)
    made.__retrograd_fields__ = {name: _annotation(t) for name, t in fields}  # type: ignore[attr-defined]
    made.__retrograd_defaults__ = {}  # type: ignore[attr-defined]
    return made


def _annotation(t: Type) -> Any:
    match t:
        case ScalarType(kind):
            return _ANNOTATIONS[kind]
        case ArrayType(element, shape):
            return ArrayAnnotation(_annotation(element), shape)
        case StructType(cls, _):
            return cls
        case StaticType():
            return static
        case StackType(element, capacity):
            return StackAnnotation(_annotation(element), capacity)
        case FormType():
            raise TypeError(t)


def restored(t: Type, given: Any, found: Any) -> Any:
    """The value `found` of a type, in the form of the argument that was given for it."""
    match t:
        case FormType():
            return found  # a value of a functional function has its form already
        case StructType(cls, fields):
            if isinstance(given, (cls, complex, bool, int, float, np.generic)) or getattr(given, "shape", None) == ():
                return found
            parts = fields_of(t, given)
            assert parts is not None
            return _like(given, {n: restored(inner, parts[n], getattr(found, n)) for n, inner in fields})
        case ArrayType(StructType(cls) as element) if isinstance(given, list | tuple) and not _plain(given, cls):
            items = [restored(element, one, struct) for one, struct in zip(given, found, strict=True)]
            return items if isinstance(given, list) else tuple(items)
        case ArrayType() | ScalarType() | StackType() | StaticType():
            return found


def _plain(given: Any, cls: type) -> bool:
    """Whether no element of a sequence is a tree."""
    return not any(
        isinstance(one, Mapping) or (dataclasses.is_dataclass(one) and not isinstance(one, cls)) for one in given
    )


def form_of(value: Any) -> Any:
    """The tree as it is now: a change of the given one does not reach it. Leaves are the same objects."""
    parts = None if is_struct(type(value)) else parts_of(value)
    return value if parts is None else _like(value, {name: form_of(inner) for name, inner in parts.items()})


def _like(given: Any, parts: dict[str, Any]) -> Any:
    """A tree of the given form with other parts."""
    if isinstance(given, Mapping):
        return {name: parts[name] for name in given}
    if isinstance(given, list):
        return [*parts.values()]
    if isinstance(given, tuple):
        make: Callable[..., Any] | None = getattr(given, "_make", None)
        return type(given)(parts.values()) if make is None else make(parts[name] for name in given._fields)  # type: ignore[attr-defined]
    return type(given)(**parts)


def has_trees(t: Type) -> bool:
    """Whether an argument of the type may be given as a tree."""
    of = t.element if isinstance(t, ArrayType) else t
    return isinstance(of, StructType) and not isinstance(of, FormType)
