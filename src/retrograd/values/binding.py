"""The arguments of a call: bound to parameters, and the types for which the function is compiled.

Annotations and arguments determine the types together; `x: Array[fixed, "n"]` and an array of three numbers give Array[fixed, 3].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.frontends.python.source import NOTHING, Parameter, SourceFunction
from retrograd.compiler.language.types import (
    BOOL,
    COMPLEX,
    FIXED,
    INT,
    ArrayAnnotation,
    ArrayType,
    ScalarType,
    StackAnnotation,
    StaticType,
    StructType,
    Type,
    complete,
    element_of,
    is_complex,
    is_open,
    item_name,
    mismatch,
    scalar_of,
    static,
    struct_of,
)
from retrograd.compiler.language.values import Structure, Unfilled
from retrograd.isa.diagnostics import CompileError, Diagnostic, InputError, nearest
from retrograd.isa.words import Format
from retrograd.values.arrays import Ragged, as_array
from retrograd.values.foreign import is_foreign, way_out
from retrograd.values.named import FurtherArguments
from retrograd.values.trees import fields_of, is_tree, parts_of, struct_of_tree


class Arguments(list[Any]):
    """The arguments of one call, in the order of the parameters, and their words once these are made.

    Every run of the call begins with the same words. A pullback may run much later: by then the caller may have changed an array.
    """

    #: the arguments that the words were made for, in the form of the compiler, and the words
    made: tuple[Any, list[int] | NDArray[np.uint64]] | None = None
    #: whether numbers that lose most of their bits have been reported
    reported = False


def refuse_argument(
    message: str, hint: str | None = None, function: SourceFunction | None = None, parameter: str = ""
) -> NoReturn:
    """Refuse an argument, pointing at its parameter."""
    raise InputError(located(Diagnostic("RG0603", message, hint=hint), function, parameter))


def located(d: Diagnostic, function: SourceFunction | None, parameter: str) -> Diagnostic:
    """The diagnostic pointing at a parameter in the function's head, where its source is at hand."""
    try:
        node = None if function is None else function.argument(parameter)
    except CompileError:
        return d
    if function is None or node is None:
        return d
    span = function.source.span(node)
    return replace(d, span=span, line=function.source.text(span.line))


_TYPES = "Use int, rg.uint, bool, rg.fixed, rg.lognum, rg.Array[…], rg.Stack[…] or a class made by rg.struct."
_RAGGED = "Make the rows equally long, or pass them one after the other in one row, with their lengths."


def bind(
    function: SourceFunction, args: Sequence[Any], keywords: dict[str, Any], format: Format | str | None = None
) -> list[Any]:
    """The arguments in the order of the parameters, as `Arguments`, defaults filled in. Raises InputError RG0603.

    Results of functional functions that are lists or data classes have no default before their size is found by a run in this format.
    """
    found = _bound(function, args, keywords)
    return found if function.first_result == 0 else Arguments(function.completed(found, format))


def _bound(function: SourceFunction, args: Sequence[Any], keywords: dict[str, Any]) -> list[Any]:
    if not isinstance(function, SourceFunction):
        name = getattr(function, "__name__", None) or described(function)
        refuse_argument(
            f"`{name}` is no reversible function",
            "Use @reversible: only functions of the language run backward and have derivatives.",
        )
    args, keywords = with_further(function, args, keywords)
    if len(args) == len(function.parameters) and not keywords:
        return Arguments(args)
    names = [p.name for p in function.parameters]
    of = f"It is declared as {function.signature}."
    called = f"`{function.__name__}`"
    if len(args) > len(names):
        refuse_argument(f"{called} takes {len(names)} argument{'s' * (len(names) != 1)}, and is given {len(args)}", of)
    found = dict(zip(names, args, strict=False))
    for name, value in keywords.items():
        if name not in names:
            refuse_argument(f"{called} has no parameter `{name}`", nearest(name, names) or of)
        if name in found:
            refuse_argument(f"`{name}` of {called} is given twice, by position and by name", None, function, name)
        found[name] = value
    for p in function.parameters:
        if p.name not in found:
            if p.default is NOTHING:
                refuse_argument(f"{called} is called without `{p.name}`", of, function, p.name)
            found[p.name] = p.default
    return Arguments(found[name] for name in names)


def with_further(
    function: SourceFunction, args: Sequence[Any], keywords: dict[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments of a call, those for `*xs` as one tuple. Parameters after `*xs` are given by name."""
    at = function.variadic
    if at is None:
        return args, keywords
    name, further = function.parameters[at].name, args[at:]
    rest = dict(keywords)
    if not further and name in rest:
        further = rest.pop(name)
        if not isinstance(further, list | tuple):
            refuse_argument(
                f"`{name}` of `{function.__name__}` is a tuple, not {described(further)}", None, function, name
            )
    elif len(further) == 1 and isinstance(further[0], FurtherArguments):
        further = further[0]
    given = FurtherArguments(further)
    return (args, {**rest, name: given}) if len(args) < at else ((*args[:at], given), rest)


def types_of(function: SourceFunction, values: Sequence[Any]) -> tuple[Type, ...]:
    """The types that the function is compiled for, from its annotations and the arguments. Raises InputError RG0603."""
    sizes: dict[str, int] = {}
    return tuple(_type_of(function, p, value, sizes) for p, value in zip(function.parameters, values, strict=True))


def types_from_annotations(function: SourceFunction) -> tuple[Type, ...]:
    """The types, where annotations say all. Raises InputError RG0603 naming the parameter that is left open."""
    out: list[Type] = []
    for p in function.parameters:
        if p.variadic:
            hint = f"Give examples of the arguments, as in a call of `{function.__name__}`."
            refuse_argument(f"the number of `*{p.name}` is open", hint, function, p.name)
        try:
            out.append(complete(p.annotation))
        except TypeError:
            hint = f"Give examples of the arguments, as in a call of `{function.__name__}`, or annotate the whole type."
            refuse_argument(f"the type of `{p.name}` is open", hint, function, p.name)
    return tuple(out)


def _type_of(function: SourceFunction, p: Parameter, value: Any, sizes: dict[str, int]) -> Type:
    if p.variadic:
        if not isinstance(value, list | tuple):
            refuse_argument(
                f"`{p.name}` of `{function.__name__}` is a tuple, not {described(value)}", None, function, p.name
            )
        types = [_type_of(function, p.item(i), v, sizes) for i, v in enumerate(value)]
        return struct_of_tree("tuple", tuple((item_name(i), t) for i, t in enumerate(types)))
    where = f"`{p.name}` of `{function.__name__}`"
    wanted = p.annotation

    def refuse(message: str, hint: str | None = None) -> NoReturn:
        refuse_argument(message, hint, function, p.name)

    if wanted is static or _is_function(value):
        return StaticType(value)
    if wanted is NOTHING and isinstance(value, list | tuple) and value and all(map(_is_function, value)):
        return StaticType(value)
    if isinstance(wanted, Structure):
        if isinstance(value, Unfilled):
            return wanted.sized(value.numbers, value.integers)
        try:
            found_form = wanted.type_for(value, p.name)
        except TypeError as error:
            refuse(f"{where} is a {wanted}, and {error}")
        return found_form
    if isinstance(wanted, StackAnnotation):
        try:
            t = complete(wanted)
        except TypeError:
            way = "of a struct or a complex number push the fields, one after the other, on a `Stack[fixed, …]`"
            refuse(f"{where} is annotated {wanted}, and a stack holds int, uint, bool, fixed or lognum", way)
        if not isinstance(value, list | tuple) or len(value) > wanted.capacity:
            given = f"a list of {len(value)}" if isinstance(value, list | tuple) else described(value)
            refuse(f"{where} is a list of up to {wanted.capacity} values, not {given}")
        wrong = next((v for v in value if not _number(v)), None)
        if wrong is not None:
            refuse(f"{where} is a list of numbers, and holds {described(wrong)}")
        return t
    return _annotated(wanted, value, where, sizes, refuse)


def _annotated(
    wanted: Any, value: Any, where: str, sizes: dict[str, int], refuse: Callable[[str, str | None], NoReturn]
) -> Type:
    """The type of a value with this annotation. `sizes`: the lengths of named dimensions so far."""
    if isinstance(wanted, ArrayAnnotation):
        element = element_of(wanted.element)
        if is_open(wanted.element):
            element = _open_element(wanted.element, value, where, refuse)
        if element is None:
            refuse(f"{where} is annotated {wanted}, which is no type of the language", _TYPES)
        found = ArrayType(element, _shape(value, element, where, refuse))
        problem = mismatch(wanted, found.element, found.shape, sizes)
        if problem is not None:
            refuse(f"{where} is {wanted}, and {described(value)} is not: {problem}", None)
        return found
    if isinstance(wanted, StackAnnotation):
        return complete(wanted)  # of a field: its words are tested where they are converted
    scalar = scalar_of(wanted) if wanted is not NOTHING else None
    if scalar is not None:
        if not _number(value):
            refuse(f"{where} is one {scalar}, not {described(value)}", way_out(value))
        return scalar
    cls = wanted if wanted is not NOTHING else type(value)
    if is_open(cls):
        return _open_struct(cls, value, where, refuse)
    struct = struct_of(wanted) if wanted is not NOTHING else struct_of(type(value))
    if struct is not None:
        number = is_complex(struct) and (isinstance(value, complex | np.complexfloating) or _number(value))
        if not isinstance(value, struct.cls) and not number and fields_of(struct, value) is None:
            other = " of other fields" if parts_of(value) is not None else ""
            hint = way_out(value) or _fields_hint(struct, value)
            refuse(f"{where} is one {struct}, not {described(value)}{other}", hint)
        return struct
    if wanted is not NOTHING:
        annotation = str(getattr(wanted, "__name__", wanted)).replace("retrograd.values.numbers.", "")
        refuse(f"{where} is annotated {annotation}, which is no type of the language", _TYPES)
    return _type_of_value(value, where, refuse)


def _open_struct(cls: Any, value: Any, where: str, refuse: Callable[[str, str | None], NoReturn]) -> StructType:
    """The type of a struct whose shapes its value decides."""
    fields = cls.__retrograd_fields__
    named = StructType(cls, tuple((name, INT) for name in fields))
    parts = fields_of(named, value)
    if parts is None:
        refuse(f"{where} is one {cls.__name__}, not {described(value)}", _fields_hint(named, value))
    name, _, owner = where.partition("` of ")
    sizes: dict[str, int] = {}
    found = [(n, _annotated(a, parts[n], f"{name}.{n}` of {owner}", sizes, refuse)) for n, a in fields.items()]
    return StructType(cls, tuple(found))


def _open_element(cls: Any, value: Any, where: str, refuse: Callable[[str, str | None], NoReturn]) -> StructType:
    """The type of the elements of an array of such structs, which have equal shapes."""
    if not isinstance(value, list | tuple | np.ndarray) or len(value) == 0:
        refuse(
            f"{where} is an array of {cls.__name__}, not {described(value)}", "Give a list with one element at least."
        )
    name, _, owner = where.partition("` of ")
    types = [_open_struct(cls, one, f"{name}[{i}]` of {owner}", refuse) for i, one in enumerate(value)]
    other = next((i for i, t in enumerate(types) if t != types[0]), None)
    if other is not None:
        hint = "Elements of an array have equal shapes. Without an annotation, a list is a struct of different ones."
        refuse(f"{where}: element {other} has other shapes than element 0", hint)
    return types[0]


def _type_of_value(value: Any, where: str, refuse: Callable[[str, str | None], NoReturn]) -> Type:
    """The type of an argument without annotation, or of a part of a tree."""
    if isinstance(value, bool | np.bool_):
        return BOOL
    if isinstance(value, int | np.integer):
        return INT
    if isinstance(value, float | np.floating):
        return FIXED
    if isinstance(value, complex | np.complexfloating):
        return COMPLEX
    if isinstance(value, list | tuple) and value and struct_of(type(value[0])) is not None:
        inner = struct_of(type(value[0]))
        assert inner is not None
        return ArrayType(inner, (len(value),))
    if is_open(type(value)):
        return _open_struct(type(value), value, where, refuse)
    struct = struct_of(type(value))
    if struct is not None:
        return struct
    if hasattr(type(value), "__retrograd_data__"):
        refuse(
            f"{where} is given {described(value)}",
            f"Annotate it: `{where.partition('` of ')[0].strip('`')}: {type(value).__name__}`, or a union of classes.",
        )
    if isinstance(value, Mapping) and parts_of(value) is None:
        refuse(f"{where} is given {described(value)} with keys that are no texts", "Keys name the fields of a struct.")
    if is_tree(value):
        return _type_of_tree(value, where, refuse)
    if isinstance(value, np.ndarray | list | tuple) or is_foreign(type(value)):
        array = _given(value, where, refuse)
        by_kind: dict[str, ScalarType | StructType] = {"f": FIXED, "i": INT, "u": INT, "b": BOOL, "c": COMPLEX}
        if array.dtype.kind not in by_kind:
            refuse(f"{where} is given an array of {_dtype(array)}", "Arrays hold numbers or bools.")
        if not array.ndim and is_foreign(type(value)):
            refuse(f"{where} is given {described(value)}", way_out(value))
        return ArrayType(by_kind[array.dtype.kind], array.shape)
    refuse(
        f"{where} is given {described(value)}", "Arguments are numbers, NumPy arrays, structs and reversible functions."
    )


def _type_of_tree(value: Any, where: str, refuse: Callable[[str, str | None], NoReturn]) -> Type:
    """A struct with a field for each part of a tree; an array where a list has items of one struct."""
    parts = parts_of(value)
    if not parts:
        refuse(f"{where} is given {described(value)} without fields", "A struct has one field at least.")
    owner = where.partition("` of ")
    types = []
    for name, inner in parts.items():
        if not name.isidentifier():
            refuse(f"{where} has the key {name!r:.40}", "Keys name the fields of a struct: letters, digits and `_`.")
        of = f"{owner[0]}.{name}{owner[1]}{owner[2]}"
        types.append((name, _type_of_value(inner, of, refuse)))
    inners = {t for _, t in types}
    if isinstance(value, list) and len(inners) == 1 and isinstance(types[0][1], StructType):
        return ArrayType(types[0][1], (len(types),))
    return struct_of_tree(type(value).__name__, tuple(types))


def _fields_hint(struct: StructType, value: Any) -> str | None:
    """How a tree differs from a struct, or None for a value that is no tree."""
    parts = parts_of(value)
    if parts is None:
        return None
    names = [name for name, _ in struct.fields]
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        fields = f"field {names[0]}" if len(names) == 1 else f"{len(names)} fields {', '.join(names)}"
        return f"{len(value)} items are given for the {fields}."
    lacking = [name for name in names if name not in parts]
    unknown = [name for name in parts if name not in names]
    said = [f"`{name}` is lacking" for name in lacking] + [
        f"`{name}` is no field of it: {nearest(name, names) or 'its fields are ' + ', '.join(names)}"
        for name in unknown
    ]
    return "; ".join(said) or None


def _is_function(value: Any) -> bool:
    """Whether a value is a reversible function or an inverse."""
    return isinstance(value, SourceFunction) or hasattr(value, "__retrograd_inverse_of__")


def _number(value: Any) -> bool:
    return (
        isinstance(value, bool | int | float | np.number | np.bool_)
        and not isinstance(value, np.complexfloating | np.timedelta64)
    ) or (isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iufb")


def described(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    name = type(value).__name__
    article = "an" if name[0] in "aeio" else "a"
    if isinstance(value, str | complex | float | int | np.generic):
        return f"the {name} {value!r:.40}"
    return f"{article} {name}"


def _dtype(array: np.ndarray[Any, Any]) -> str:
    """The kind of an array's elements, in words."""
    return {"U": "texts", "S": "bytes", "O": "objects", "c": "complex numbers"}.get(array.dtype.kind, str(array.dtype))


def _shape(
    value: Any, element: ScalarType | StructType, where: str, refuse: Callable[[str, str | None], NoReturn]
) -> tuple[int, ...]:
    if isinstance(element, StructType):
        if isinstance(value, np.ndarray) and value.dtype.kind == "c" and len(element.fields) == 2:
            return tuple(value.shape)
        if is_foreign(type(value)):
            return _given(value, where, refuse).shape
        try:
            return np.asarray(value, dtype=object).shape
        except (TypeError, ValueError):
            refuse(f"{where} is an array of {element}, not {described(value)}", None)
    array = _given(value, where, refuse)
    if array.dtype.kind not in "iufb":
        refuse(f"{where} is an array of {element}, not of {_dtype(array)}", None)
    return array.shape


def _given(value: Any, where: str, refuse: Callable[[str, str | None], NoReturn]) -> NDArray[Any]:
    """The value as an array, refused where its rows differ in length or its elements are masked."""
    try:
        return as_array(value, exact=False)  # only the type is wanted
    except Ragged:
        refuse(f"{where} is given {described(value)}, whose rows have different lengths", _RAGGED)
    except InputError as error:
        refuse(f"{where}: {error.diagnostics[0].message}", error.diagnostics[0].hint)
