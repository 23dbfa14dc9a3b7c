"""`@struct`: classes whose objects are made of words."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, TypeVar, dataclass_transform

from retrograd.compiler.source import SourceFunction, evaluated_in
from retrograd.compiler.types import complete

C = TypeVar("C")


@dataclass_transform()
def struct(cls: type[C]) -> type[C]:
    """A class with annotated fields, as a value of the language and a frozen dataclass of Python.

    Fields are int, bool, fixed, lognum, arrays of known shape, or other structs; methods may be reversible
    functions. Raises TypeError for a field of another type.
    """
    fields: dict[str, Any] = {}
    for name, annotation in inspect.get_annotations(cls).items():
        fields[name] = evaluated_in(annotation, cls)
        complete(fields[name])
    if not fields:
        raise TypeError(f"{cls.__name__} has no annotated fields")
    defaults = {name: cls.__dict__[name] for name in fields if name in cls.__dict__}
    made: Any = dataclasses.dataclass(frozen=True)(cls)
    made.__retrograd_fields__ = fields
    for method in vars(cls).values():
        if isinstance(method, SourceFunction):
            method.owner = made
    made.__retrograd_defaults__ = defaults
    return made  # type: ignore[no-any-return]
