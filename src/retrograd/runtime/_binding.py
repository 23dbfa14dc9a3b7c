"""The number types of the machine, for Python and NumPy: real numbers <-> words.

`fixed`, `lognum` and `uint` name the types. Functions of the first two convert whole arrays; errors name the element.
"""

from __future__ import annotations

import ast
import copyreg
import dataclasses
from collections import namedtuple
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NoReturn, cast
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.frontends.python.source import NOTHING, Parameter, SourceFunction
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import (
    BOOL,
    COMPLEX,
    FIXED,
    INT,
    ArrayAnnotation,
    ArrayType,
    ScalarType,
    StackAnnotation,
    StackType,
    StaticType,
    StructType,
    Type,
    complete,
    element_of,
    is_complex,
    is_open,
    is_struct,
    item_name,
    keys_of,
    mismatch,
    names_of_keys,
    scalar_of,
    static,
    struct_of,
)
from retrograd.compiler.language.values import FormType, Structure, Unfilled
from retrograd.isa.diagnostics import CompileError, Diagnostic, InputError, nearest
from retrograd.isa.words import Q32_32, Format, format_of
from retrograd.runtime._arrays import (
    Ragged,
    RealKind,
    Rounding,
    as_array,
    fail,
    fixed_words,
    integer_words,
    is_foreign,
    lognum_words,
    plain,
    reals_of,
    remembered,
    way_out,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def _reals(array: NDArray[Any]) -> NDArray[Any]:
    """The array's values as floats: float64s, or longer ones as they are."""
    array = plain(array)
    if array.dtype.kind not in "iufb":
        raise fail("RG0602", f"{array.dtype} is no type of real numbers", ())
    longer = array.dtype.kind == "f" and array.dtype.itemsize > 8
    return array if longer else array.astype(np.float64, copy=False)


def _by_memory(
    array: NDArray[Any],
    kind: RealKind,
    format: Format,
    convert: Callable[[NDArray[Any]], NDArray[np.uint64]],
    blank: float,
) -> NDArray[np.uint64]:
    """The kept words of an array where they still round to its values, and the words of all other elements by `convert`."""
    found = remembered(array, kind, format)
    if found is None:
        return convert(_reals(array))
    words, valid = found
    if valid.all():
        return words.copy()
    # `blank` has a word, and stands for the elements that keep theirs.
    return np.where(valid, words, convert(np.where(valid, blank, plain(array))))


class _NumberType(type):
    """Makes `fixed(0)` a call for editors; only the compiler executes it."""

    def __call__(cls, value: Any = 0) -> Any:
        name = cls.__name__
        message = f"{name}(…) is part of the language: it is compiled within @reversible functions"
        hint = f"numbers of Python's own are converted by {name}.to_words"
        if cls is uint:
            hint = "outside, a uint is an int: write `x % 2**W` for words of W bits"
        raise InputError(Diagnostic("RG0602", message, hint=hint))


class _Declared:
    """Operators of numbers and arrays in reversible functions, declared for type checkers; Python executes none of them."""

    if TYPE_CHECKING:
        shape: tuple[int, ...]
        size: int
        ndim: int
        T: Any

        def __init__(self, value: Any = 0) -> None: ...
        def __add__(self, other: Any) -> Any: ...

        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __add__
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __add__
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = __add__
        __iadd__ = __isub__ = __imul__ = __itruediv__ = __ixor__ = __add__

        def __lt__(self, other: Any) -> bool: ...
        def __le__(self, other: Any) -> bool: ...
        def __gt__(self, other: Any) -> bool: ...
        def __ge__(self, other: Any) -> bool: ...
        def __eq__(self, other: object) -> bool: ...
        def __ne__(self, other: object) -> bool: ...
        def __hash__(self) -> int: ...
        def __float__(self) -> float: ...
        def __neg__(self) -> Any: ...
        def __abs__(self) -> Any: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __iter__(self) -> Any: ...
        def __len__(self) -> int: ...


class fixed(_Declared, metaclass=_NumberType):
    """value = word / 2^F, word in two's complement: `to_words` and `to_reals` are inverse."""

    #: the name of the type in the compiler
    retrograd_kind = "fixed"

    def __class_getitem__(cls, point: int) -> type:
        """`fixed[p]`: numbers with p places behind the binary point, value = word / 2^p, of a range of ±2^(W − 1 − p).

        −4W ≤ p ≤ 4W in words of W bits; Q32.32's `fixed` is `fixed[32]`. A conversion within a function is written
        `fixed[p](x)`.
        """
        if not isinstance(point, int) or isinstance(point, bool):
            hint = "The places behind the binary point are an integer: `fixed[40]`."
            raise InputError(Diagnostic("RG0602", f"`fixed[{point!r:.40}]` is no type", hint=hint))
        return _fixed_at(point)

    @staticmethod
    def to_words(
        values: ArrayLike, format: Format | str = Q32_32, rounding: Rounding = "nearest"
    ) -> NDArray[np.uint64]:
        """round(value * 2^F), ties to even, or floored; an array of the same shape. Integers are exact.

        to_words(to_reals(words)) == words: numbers with a word (see `retrograd.runtime._arrays`) are that word.
        Raises InputError RG0601 naming the first element that does not fit, RG0602 for a NaN or another type.
        Trap: an ordinary float64 has 53 bits, and a word may have 64.
        """
        w, array = format_of(format), as_array(values)
        if array.dtype.kind in "iu":
            return integer_words(array, w)

        return _by_memory(array, "fixed", w, lambda reals: fixed_words(reals, w, rounding), 0.0)

    @staticmethod
    def to_reals(words: ArrayLike, format: Format | str = Q32_32) -> NDArray[np.float64]:
        """word / 2^F, as near as a float64 comes; an array with its words where that is not exact."""
        return reals_of(as_array(words), "fixed", format_of(format))


@lru_cache(maxsize=1024)
def _fixed_at(point: int) -> type:
    name = f"fixed[{point}]"
    made: type = _NumberType(name, (fixed,), {"retrograd_kind": name})
    return made


def _reduced(cls: _NumberType) -> str | tuple[Any, ...]:
    kind: str = cls.__dict__["retrograd_kind"]
    return (_fixed_at, (int(kind[6:-1]),)) if "[" in kind else cls.__qualname__


# Pickle finds a class by its name in the module, which `fixed[40]` has none of.
copyreg.pickle(_NumberType, _reduced)


class uint(_Declared, metaclass=_NumberType):
    """value = word, an integer of 0 … 2^W − 1: arithmetic is mod 2^W, and comparisons, `>>`, `//` and `%` are unsigned.

    Outside of reversible functions a uint is an int, and an array of them one of np.uint64.
    """

    retrograd_kind = "uint"


class lognum(_Declared, metaclass=_NumberType):
    """value = ±2^(log / 2^F): the sign in the top bit, log2|value| below it. Zero has no lognum."""

    retrograd_kind = "lognum"

    @staticmethod
    def to_words(values: ArrayLike, format: Format | str = Q32_32) -> NDArray[np.uint64]:
        """The sign bit over round(log2|value| * 2^F), for an array of the same shape.

        to_words(to_reals(words)) == words, even where the float is 0 or an infinity: such numbers keep their word.
        Raises InputError RG0601 naming the first element whose logarithm does not fit (infinities among them),
        RG0411 for a zero, RG0602 for a NaN or another type.
        """

        w = format_of(format)

        return _by_memory(as_array(values), "lognum", w, lambda reals: lognum_words(reals, w), 1.0)

    @staticmethod
    def to_reals(words: ArrayLike, format: Format | str = Q32_32) -> NDArray[np.float64]:
        """±2^(log / 2^F), as near as a float64 comes, beyond its range an infinity or 0; an array with its words."""
        return reals_of(as_array(words), "lognum", format_of(format))


# -----------------------------------------------------------------------------
# Named tuples of results: all arguments of a function after a run, by position and by name.
#
#     named_tuple("f", ("y", "x"))(1.0, 2.0)  =  f(y=1.0, x=2.0)
#
# There is one class for each name and fields: to make it takes as long as a short run. A class that no function and no value has any more is
# freed, so that a process which compiles function after function does not grow.
#
# Trap: a named tuple of Python's has no field `_x`, and none that is a keyword, such as `in`. Here `r._asdict()` has all names, and
# `r._x` and `getattr(r, "in")` are attributes, unless a method of tuples has the name. `r._fields` names such a field by its position, `_1`.

_classes: WeakValueDictionary[tuple[str, tuple[str, ...]], type[Any]] = WeakValueDictionary()


# The last ones stay, for pickles that are read one after the other.
@lru_cache(maxsize=64)
def named_tuple(name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    """The class of named tuples with this name and these fields."""
    known = _classes.get((name, fields))
    if known is not None:
        return known
    made = cast("Any", namedtuple)(name, fields, rename=True)
    if made._fields != fields:
        made._asdict = lambda self: dict(zip(fields, self, strict=True))
        shown = ", ".join(f"{field}=%r" for field in fields)
        made.__repr__ = lambda self: f"{name}({shown})" % tuple(self)
        for i, field in enumerate(fields):
            if not hasattr(made, field):
                setattr(made, field, property(itemgetter(i)))
    # No module names the class, so a pickle holds its name and fields.
    made.__reduce__ = lambda self: (_restored, (name, fields, tuple(self)))
    # Of two threads that make the class at once, both get the same.
    return cast("Callable[..., Any]", _classes.setdefault((name, fields), made))


class FurtherArguments(tuple[Any, ...]):
    """The values of `*xs` among the results of a function. As the only argument in the place of `*xs`, it stands for all of them."""

    __slots__ = ()


def _restored(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return named_tuple(name, fields)(*values)


# -----------------------------------------------------------------------------
# Trees of Python's values for structs: mappings, data classes, named tuples, and lists with an item for each field.
#
#     restored(t, {"w": …, "b": …}, words_as_a_struct)  =  {"w": …, "b": …}
#
# A struct argument may be given as a tree, and the results and gradients for it have the form that was given. A dict, a data class
# or a list without annotation is a struct of its own, made by `struct_of_tree`.

_ANNOTATIONS = {Kind.INT: int, Kind.UINT: uint, Kind.BOOL: bool, Kind.FIXED: fixed, Kind.LOGNUM: lognum}


def parts_of(value: Any) -> dict[str, Any] | None:
    """The values of a tree's root by name; None for a value that is no tree. Items of lists and tuples are named by `item_name`."""
    if isinstance(value, Mapping):
        return {name: value[key] for key, name in names_of_keys(value).items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {f.name: getattr(value, f.name) for f in fields} if all(f.init for f in fields) else None
    if (record_fields := getattr(type(value), "__retrograd_record__", None)) is not None:
        names = record_fields()
        return None if names is None else {name: getattr(value, name) for name in names}
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
    keys = keys_of(t.cls)
    if keys and isinstance(value, Mapping):
        return {name: value[key] for key, name in keys.items()} if keys.keys() == value.keys() else None
    parts = parts_of(value)
    if parts is None:
        return None
    names = [name for name, _ in t.fields]
    if isinstance(value, list | tuple) and not hasattr(value, "_fields") and len(value) == len(names):
        return dict(zip(names, value, strict=True))
    return {name: parts[name] for name in names} if parts.keys() == set(names) else None


def struct_of_tree(kind: str, fields: tuple[tuple[str, Type], ...], keys: tuple[Hashable, ...] = ()) -> StructType:
    """A struct of these fields, the same class for the same fields. `kind`: its name; `keys`: those of a dictionary."""
    return StructType(_class(kind, fields, keys), fields)


@lru_cache(maxsize=1024)
def _class(kind: str, fields: tuple[tuple[str, Type], ...], keys: tuple[Hashable, ...]) -> type:
    made = dataclasses.make_dataclass(kind, [name for name, _ in fields], frozen=True)
    made.__retrograd_fields__ = {name: _annotation(t) for name, t in fields}  # type: ignore[attr-defined]
    made.__retrograd_defaults__ = {}  # type: ignore[attr-defined]
    made.__retrograd_keys__ = of_keys = names_of_keys(keys)  # type: ignore[attr-defined]
    if keys:
        made.__getitem__ = lambda self, key: getattr(self, of_keys[key])  # type: ignore[index]
    return made


def _annotation(t: Type) -> Any:
    match t:
        case ScalarType(kind):
            return _ANNOTATIONS[kind] if kind in _ANNOTATIONS else _fixed_at(kind.point(Q32_32))
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
            made = {n: restored(inner, parts[n], getattr(found, n)) for n, inner in fields}
            if isinstance(given, Mapping) and (keys := keys_of(cls)):
                return {key: made[keys[key]] for key in given}
            return _like(given, made)
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
        return {key: parts[name] for key, name in names_of_keys(given).items()}
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


# -----------------------------------------------------------------------------
# The arguments of a call: bound to parameters, and the types for which the function is compiled.
#
# Annotations and arguments determine the types together; `x: Array[fixed, "n"]` and an array of three numbers give Array[fixed, 3].


class Arguments(list[Any]):
    """The arguments of one call, in the order of the parameters, and their words once these are made.

    Every run of the call begins with the same words. A pullback may run much later: by then the caller may have changed an array.
    """

    #: the arguments that the words were made for, in the form of the compiler, and the words
    made: tuple[Any, list[int] | NDArray[np.uint64]] | None = None
    #: whether numbers that lose most of their bits have been reported
    reported = False
    #: the arguments with zeros in the places of arrays that lie on a device, for their types; None where none does
    examples: list[Any] | None = None

    def copied(self) -> Arguments:
        """The same with copies of arrays that lie on a device."""
        return self

    def placed(self, results: dict[str, Any]) -> dict[str, Any]:
        """Results for these arguments, on the device where some of them lie on one."""
        return results


def refuse_argument(
    message: str, hint: str | None = None, function: SourceFunction | None = None, parameter: str = ""
) -> NoReturn:
    """Refuse an argument, pointing at its parameter."""
    raise InputError(located(Diagnostic("RG0603", message, hint=hint), function, parameter))


def located(d: Diagnostic, function: SourceFunction | None, parameter: str) -> Diagnostic:
    """The diagnostic pointing at a parameter in the function's head, where its source is at hand."""
    try:
        node = None if function is None else function.argument(parameter) or _result(function, parameter)
    except CompileError:
        return d
    if function is None or node is None:
        return d
    span = function.source.span(node)
    return replace(d, span=span, line=function.source.text(span.line))


def _result(function: SourceFunction, name: str) -> ast.AST | None:
    """The annotation of a functional function's result, or its head; None for another parameter."""
    results = [p.name for p in function.parameters[function.first_result :]] if function.first_result else []
    return (function.tree.returns or function.tree) if name in results else None


_TYPES = "Use int, rg.uint, bool, rg.fixed, rg.lognum, rg.Array[…], rg.Stack[…] or a class made by rg.struct."
_RAGGED = "Make the rows equally long, or pass them one after the other in one row, with their lengths."


def bind(
    function: SourceFunction, args: Sequence[Any], keywords: dict[str, Any], format: Format | str | None = None
) -> Arguments:
    """The arguments in the order of the parameters, defaults filled in. Raises InputError RG0603.

    Results of functional functions that are lists or data classes have no default before their size is found by a run in this format.
    """
    found = _bound(function, args, keywords)
    return found if function.first_result == 0 else Arguments(function.completed(found, format))


#: the way out for any other object in place of a function
NO_FUNCTION_OF_THE_LANGUAGE = (
    "Use @reversible, or @rg.functional for a function of values: "
    "only functions of the language run backward and have derivatives."
)


def _bound(function: SourceFunction, args: Sequence[Any], keywords: dict[str, Any]) -> Arguments:
    if not isinstance(function, SourceFunction):
        name = getattr(function, "__name__", None) or described(function)
        refuse_argument(
            f"`{name}` is no reversible function",
            NO_FUNCTION_OF_THE_LANGUAGE,
        )
    args, keywords = with_further(function, args, keywords)
    if len(args) == len(function.parameters) and not keywords:
        return Arguments(args)
    further = function.parameters[len(args) :]
    if not keywords and further and all(p.default is not NOTHING for p in further):
        return Arguments([*args, *(p.default for p in further)])
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
    """The types that the function is compiled for, by its annotations and the arguments, or the first of these.

    Raises InputError RG0603.
    """
    sizes: dict[str, int] = {}
    given = zip(function.parameters[: len(values)], values, strict=True)
    return tuple(_type_of(function, p, value, sizes) for p, value in given)


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
            way = "annotate a stack of int, uint, bool, fixed, lognum, complex, or a struct whose lengths are all known"
            refuse(f"{where} is annotated {wanted}, and a stack holds numbers and structs of numbers", way)
        assert isinstance(t, StackType)
        if not isinstance(value, list | tuple) or len(value) > wanted.capacity:
            given = f"a list of {len(value)}" if isinstance(value, list | tuple) else described(value)
            refuse(f"{where} is a list of up to {wanted.capacity} values, not {given}")
        if isinstance(t.element, StructType):
            for i, v in enumerate(value):
                _annotated(wanted.element, v, f"`{p.name}[{i}]` of `{function.__name__}`", {}, refuse)
            return t
        if isinstance(t.element, StackType):
            for v in value:
                if not isinstance(v, list | tuple):
                    refuse(f"{where} is a list of lists, and holds {described(v)}")
            return t
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
        found = ArrayType(element, _shape(value, element, where, refuse, len(wanted.dims or (1,))))
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
        annotation = str(getattr(wanted, "__name__", wanted)).replace("retrograd.runtime._binding.", "")
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
    if hasattr(type(value), "__retrograd_data__") and not is_tree(value):
        refuse(
            f"{where} is given {described(value)}",
            f"Annotate it: `{where.partition('` of ')[0].strip('`')}: {type(value).__name__}`, or a union of classes.",
        )
    if is_tree(value):
        return _type_of_tree(value, where, refuse)
    if isinstance(value, np.ndarray | list | tuple) or is_foreign(type(value)):
        try:
            array = as_array(value, exact=False)  # only the type is wanted
        except Ragged:
            if any(isinstance(one, list | tuple) and is_tree(one) for one in value):
                return _type_of_tree(value, where, refuse)  # rows of arrays: [(W, b), (V, c)]
            array = _given(value, where, refuse)
        except InputError:
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
    keys = tuple(value) if isinstance(value, Mapping) else ()
    types = []
    for i, (name, inner) in enumerate(parts.items()):
        part = f".{name}" if not keys or keys[i] == name else f"[{keys[i]!r:.40}]"
        of = f"{owner[0]}{part}{owner[1]}{owner[2]}"
        types.append((name, _type_of_value(inner, of, refuse)))
    inners = {t for _, t in types}
    rows = isinstance(value, list) and isinstance(value[0], list | tuple) and not hasattr(value[0], "_fields")
    if isinstance(value, list) and not rows and len(inners) == 1 and isinstance(types[0][1], StructType):
        return ArrayType(types[0][1], (len(types),))
    return struct_of_tree(type(value).__name__, tuple(types), keys)


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
    value: Any,
    element: ScalarType | StructType | StackType,
    where: str,
    refuse: Callable[[str, str | None], NoReturn],
    dimensions: int = 1,
) -> tuple[int, ...]:
    if isinstance(element, StackType):
        return shape_of(value, dimensions)
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


def items_of(value: Any, dimensions: int) -> list[Any]:
    """The items of nested lists, in row-major order."""
    return [x for v in value for x in items_of(v, dimensions - 1)] if dimensions else [value]


def shape_of(value: Any, dimensions: int) -> tuple[int, ...]:
    """The lengths of nested lists, by their first items."""
    if not dimensions or not isinstance(value, list | tuple | np.ndarray):
        return ()
    return (len(value), *(shape_of(value[0], dimensions - 1) if len(value) else ()))


def _given(value: Any, where: str, refuse: Callable[[str, str | None], NoReturn]) -> NDArray[Any]:
    """The value as an array, refused where its rows differ in length or its elements are masked."""
    try:
        return as_array(value, exact=False)  # only the type is wanted
    except Ragged:
        refuse(f"{where} is given {described(value)}, whose rows have different lengths", _RAGGED)
    except InputError as error:
        refuse(f"{where}: {error.diagnostics[0].message}", error.diagnostics[0].hint)
