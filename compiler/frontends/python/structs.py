"""`@struct`: classes whose objects are made of words."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from abc import ABCMeta
from typing import Any, NoReturn, TypeVar, dataclass_transform

from retrograd.compiler.frontends.constants import annotations_of
from retrograd.compiler.frontends.python.source import SourceFunction, evaluated_in
from retrograd.compiler.language.types import array_of_known_length, complete, is_open, is_struct
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span, nearest, shown

C = TypeVar("C")
#: flag of classes that a `class` statement made; built-in classes do not have it
_MADE_BY_CLASS = 1 << 9


@dataclass_transform()
def struct(cls: type[C]) -> type[C]:
    """A class with annotated fields, as a value of the language and a frozen dataclass of Python.

    Fields are int, bool, fixed, lognum, arrays, or other structs; methods may be reversible functions. A length in quotes,
    `Array[fixed, "n"]`, is decided by each value: the same name is one length throughout it. Raises CompileError RG0722 for any other class, RG0702 for an unknown type.
    """
    if not isinstance(cls, type):
        raise CompileError(Diagnostic("RG0722", f"{cls!r:.60} is no class"))
    for base in cls.__mro__[1:-1]:
        if annotations_of(base):
            hint = f"Make a field of it, `base: {base.__name__}`, or write its fields again."
            _refuse(cls, None, f"`{cls.__name__}` derives from `{base.__name__}`, which has fields of its own", hint)
        if not base.__flags__ & _MADE_BY_CLASS:
            hint = f"Write `class {cls.__name__}:`, and a field for what `{base.__name__}` holds."
            _refuse(cls, None, f"`{cls.__name__}` derives from `{base.__name__}`, whose values are no words", hint)
    metaclass: type = type(cls)
    if metaclass not in (type, ABCMeta):
        _refuse(cls, None, f"`{cls.__name__}` is made by `{metaclass.__name__}`, and its objects are no structs")
    annotations = annotations_of(cls)
    if not annotations:
        _refuse(cls, None, f"`{cls.__name__}` has no annotated fields")
    fields = {name: _field(cls, name, annotation) for name, annotation in annotations.items()}
    defaults = {name: cls.__dict__[name] for name in fields if name in cls.__dict__}
    try:
        made: Any = dataclasses.dataclass(frozen=True)(cls)
    except (TypeError, ValueError, AttributeError) as error:
        _refuse(cls, None, f"`{cls.__name__}`: {error}")
    made.__retrograd_fields__ = fields
    for method in vars(cls).values():
        if isinstance(method, SourceFunction):
            method.owner = made
    made.__retrograd_defaults__ = defaults
    return made  # type: ignore[no-any-return]


def _field(cls: type, name: str, annotation: Any) -> Any:
    """The type that a field is annotated with."""
    itself = f"`{name}` of `{cls.__name__}` holds a `{cls.__name__}` itself, and so on without end"
    hint = "Keep the structs in an array, and in the field the index of one: `next: int`."
    try:
        found = evaluated_in(annotation, cls)
    except NameError as error:
        if error.name == cls.__name__:
            _refuse(cls, name, itself, hint)
        known = [n for n in ("int", "bool", "fixed", "lognum", "Array", "Stack") if error.name]
        message = f"the annotation of `{name}` of `{cls.__name__}` cannot be read: {error}"
        _refuse(cls, name, message, nearest(error.name or "", known), "RG0702")
    except Exception as error:
        _refuse(cls, name, f"the annotation of `{name}` of `{cls.__name__}` cannot be read: {error}", None, "RG0702")
    if is_struct(found) and (found.__module__, found.__qualname__) == (cls.__module__, cls.__qualname__):
        _refuse(cls, name, itself, hint)
    try:
        if not is_open(found):
            complete(array_of_known_length(found))
    except TypeError as error:
        _refuse(cls, name, f"`{name}` of `{cls.__name__}`: {error}")
    return found


def _refuse(cls: type, field: str | None, message: str, hint: str | None = None, code: str = "RG0722") -> NoReturn:
    """Raise a CompileError that points at a field of a class, or at its head."""
    span, line = None, None
    try:
        lines, first = inspect.getsourcelines(cls)
        node: ast.stmt = ast.parse(textwrap.dedent("".join(lines))).body[0]
        assert isinstance(node, ast.ClassDef)
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == field:
                node = statement
        line = lines[node.lineno - 1].rstrip("\n")
        column = len(line) - len(line.lstrip()) + 1
        span = Span(shown(inspect.getsourcefile(cls) or "?"), first + node.lineno - 1, column, len(line.rstrip()) + 1)
    except (OSError, TypeError, SyntaxError, AssertionError, IndexError):
        pass  # a class without source text, as in an interactive session
    raise CompileError(Diagnostic(code, message, span, hint, line))
