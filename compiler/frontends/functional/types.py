"""Types of the functional language, found by inference: words, tuples, functions, lists, data classes; and the values of them.

Types come first, then data classes, then `Value`, the words of a value while a program is lowered, then functions of values of any form.

A function type is the set of the functions that a value may be, each with the types of the values that it has captured. So a call
of a value that can be one function only is direct; of several, it is a branch on a tag (defunctionalisation by types).
Source: the sets are those of Brandon et al., Better Defunctionalization through Lambda Set Specialization, PLDI 2023.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Union, get_args, get_origin

import numpy as np
from retrograd.compiler.frontends.constants import annotations_of
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.ir.expressions import Address, E, choose, const
from retrograd.compiler.ir.statements import Kind, Var
from retrograd.compiler.language.arithmetic import Arithmetic
from retrograd.compiler.language.types import ArrayAnnotation, ScalarType, StructType, is_struct, row_major, scalar_of
from retrograd.compiler.language.values import ArrayView, Constant, Scalar
from retrograd.isa.diagnostics import CompileError, Diagnostic


@dataclass(frozen=True)
class Nothing:
    """The type of an expression that gives no value: of a recursion before its other branches are known, of an empty list's items."""

    def __str__(self) -> str:
        return "nothing"


@dataclass(frozen=True)
class Word:
    kind: Kind

    def __str__(self) -> str:
        return self.kind.value


@dataclass(frozen=True)
class Tuple:
    """A tuple. `form`: of VLAD, the constructor of the value, such as "pair", "nil" or "bundle"; no value has two forms."""

    items: tuple[Type, ...]
    form: str = ""
    #: see `kinds` and `arrays`, below
    kinds: tuple[Kind, ...] | None = field(default=None, init=False, repr=False, compare=False)
    arrays: int | None = field(default=None, init=False, repr=False, compare=False)

    def __str__(self) -> str:
        return self.form or f"tuple[{', '.join(map(str, self.items))}]"

    def __post_init__(self) -> None:
        # Kept, as pairs are nested deep, and types are keys.
        object.__setattr__(self, "_hash", hash((self.items, self.form)))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined, no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        return Tuple, (self.items, self.form)


@dataclass(frozen=True)
class Known:
    """The type of one constant, which takes no words: of VLAD, #t, #f, or a symbol."""

    value: bool | str

    def __str__(self) -> str:
        return f"symbol {self.value}" if isinstance(self.value, str) else "#t" if self.value else "#f"


@dataclass(frozen=True)
class Exact:
    """The type of one whole number, which takes no words: of VLAD, in programs whose other types depend on numbers.

    `level`: the number is the primal of as many bundles, each with a tangent of zero.
    """

    value: int
    level: int = 0

    def __str__(self) -> str:
        return "bundle" if self.level else Kind.FIXED.value


@dataclass(frozen=True)
class Closure:
    """One function that a value may be. `code`: a Lambda, an Operator, or a Derivative of a function."""

    code: Any
    captured: tuple[Type, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Kept, as functions that capture each other are nested deep."""
        return hash((self.code, self.captured))

    def __getstate__(self) -> dict[str, Any]:
        return {"code": self.code, "captured": self.captured}


@dataclass(frozen=True)
class Derivative:
    """The code of an operator applied to a function, which is captured."""

    mode: str

    @property
    def name(self) -> str:
        return self.mode


@dataclass(frozen=True)
class Function:
    alternatives: tuple[Closure, ...]

    def __str__(self) -> str:
        return "function"


@dataclass(frozen=True)
class List:
    item: Type

    def __str__(self) -> str:
        return f"list[{self.item}]"


@dataclass(frozen=True)
class Data:
    """A value of one of these data classes, in a cell of the heap."""

    classes: frozenset[type]

    def __str__(self) -> str:
        return " | ".join(sorted(c.__name__ for c in self.classes))


@dataclass(frozen=True)
class Array:
    """An array among the arguments, which is only read."""

    element: ScalarType | StructType
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def __str__(self) -> str:
        return f"Array[{self.element}, {', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class OpenArray:
    """An array among the results, whose shape the arguments decide."""

    annotation: ArrayAnnotation

    def __str__(self) -> str:
        return str(self.annotation)


Type = Nothing | Word | Tuple | Known | Exact | Function | List | Data | Array | OpenArray

#: (function, types of the captured values, types of its arguments)
Key = tuple[Any, tuple[Type, ...], tuple[Type, ...]]

NOTHING = Nothing()
#: pairs of a list that is made of words, and not of cells: so a list that is built by recursion has one type in the end
_LONGEST = 16
INT, UINT, FIXED, BOOL = Word(Kind.INT), Word(Kind.UINT), Word(Kind.FIXED), Word(Kind.BOOL)
#: of VLAD: #t or #f
BOOLEAN = Tuple((BOOL,), "boolean")


def record(name: str, items: Sequence[tuple[str, Type]]) -> Tuple:
    """A tuple whose items have names: a dict, or an object with fields, from Python."""
    return Tuple(tuple(t for _, t in items), record_form(name, [n for n, _ in items]))


def record_form(name: str, items: Iterable[str]) -> str:
    """The form of a tuple whose items have these names."""
    return f"{name}[{', '.join(items)}]"


def has_names(t: Tuple) -> bool:
    """Whether a tuple is a `record`."""
    return t.form.endswith("]")


def has_named_items(t: Type) -> bool:
    """Whether a type is a `record`, or a tuple with one in it."""
    return isinstance(t, Tuple) and (has_names(t) or any(map(has_named_items, t.items)))


def names_of(t: Tuple) -> list[str]:
    """The names of a record's items."""
    names = t.form.partition("[")[2][:-1]
    return names.split(", ") if names else []


class Mismatch(TypeError):
    """Two types that no value has in common."""


def join(x: Type, y: Type) -> Type:
    """The type of a value that is one or the other. Raises Mismatch."""
    if x == y or isinstance(y, Nothing):
        return x
    match x, y:
        case Nothing(), _:
            return y
        case Word(a), Word(b):
            if {a, b} <= {Kind.INT, Kind.UINT, Kind.FIXED, Kind.BOOL}:
                # An int beside a uint has to be a constant: the lowering refuses any other.
                return FIXED if Kind.FIXED in (a, b) else UINT if Kind.UINT in (a, b) else INT
        case (Exact(), _) | (_, Exact()):
            return join(forgotten(x), forgotten(y))
        case Tuple(a), Tuple(b) if len(a) == len(b) and x.form == y.form:
            return Tuple(tuple(join(i, j) for i, j in zip(a, b, strict=True)), x.form)
        case (Known() | Tuple(_, "boolean"), Known() | Tuple(_, "boolean")) if _is_truth(x) and _is_truth(y):
            return BOOLEAN
        case (Tuple(_, "pair" | "nil") | List(), Tuple(_, "pair" | "nil") | List()) if isinstance(
            x, Tuple
        ) or isinstance(y, Tuple):
            return join(as_list(x), as_list(y))
        case Function(a), Function(b):
            return _functions(a, b)
        case List(a), List(b):
            return List(join(a, b))
        case Data(a), Data(b):
            return Data(a | b)
        case Array(ScalarType(a), shape), Array(ScalarType(b), other) if shape == other:
            found = join(Word(a), Word(b))
            assert isinstance(found, Word)
            return Array(ScalarType(found.kind), shape, row_major(shape, 1))
    raise Mismatch(f"{named(x)} and {named(y)}")


def as_list(t: Type) -> List:
    """The type of a chain of pairs as that of a list in the heap. Raises Mismatch."""
    match t:
        case List():
            return t
        case Tuple((), "nil"):
            return List(NOTHING)
        case Tuple((head, tail), "pair"):
            # The items of a list of the heap have one form, so their numbers are words.
            return List(join(forgotten(head), as_list(tail).item))
        case Nothing():
            return List(NOTHING)
    raise Mismatch(f"a list that ends with {named(t)}")


def constructed(items: tuple[Type, ...], form: str) -> Type:
    """The type of a tuple; a pair before a list, or at the head of a long chain of pairs, is a list."""
    made = Tuple(items, form)
    if form != "pair":
        return made
    length, last = 1, items[1]
    while isinstance(last, Tuple) and last.form == "pair":
        length, last = length + 1, last.items[1]
    if not isinstance(last, List) and length <= _LONGEST:
        return made
    try:
        return as_list(made)
    except Mismatch:
        return made


def of_arrays(types: Sequence[Type]) -> Tuple | None:
    """The type of a list with arrays in it, which is a tuple: its length is known. None for another list.

    `types`: of its first items, and of the rest.
    """
    *items, tail = types or (NOTHING,)
    if isinstance(tail, Tuple) and not tail.form:
        return Tuple((*items, *tail.items))
    return Tuple(tuple(items)) if isinstance(tail, List) and tail.item == NOTHING and any(map(arrays, items)) else None


def at_numbers(t: Type, f: Callable[[tuple[int, ...], Exact], Type], path: tuple[int, ...] = ()) -> Type:
    """The type with f(place, type) in place of the type of each known number."""

    def inside(items: Iterable[Type], *around: int) -> tuple[Type, ...]:
        return tuple(at_numbers(item, f, (*path, *around, k)) for k, item in enumerate(items))

    match t:
        case Exact():
            return f(path, t)
        case Tuple(items, form):
            made = inside(items)
            return t if all(a is b for a, b in zip(items, made, strict=True)) else Tuple(made, form)
        case List(item):
            return List(*inside((item,)))
        case Function(alternatives):
            return Function(tuple(Closure(c.code, inside(c.captured, k)) for k, c in enumerate(alternatives)))
    return t


def forgotten(t: Type) -> Type:
    """The type without the values of numbers."""
    return at_numbers(t, lambda _, number: _bundle(number.level))


def _bundle(level: int) -> Type:
    """The type of reals of a level."""
    return FIXED if not level else Tuple((_bundle(level - 1),) * 2, "bundle")


def _is_truth(t: Type) -> bool:
    return isinstance(t, Tuple) or (isinstance(t, Known) and isinstance(t.value, bool))


def is_unsigned(t: Type) -> bool:
    """Whether a type is a uint, or a tuple or list with uints in it: an int in their place has another order."""
    match t:
        case Tuple(items):
            return any(map(is_unsigned, items))
        case List(item):
            return is_unsigned(item)
    return t == UINT


def named(t: Type) -> str:
    """The type with its article."""
    return f"{'an' if str(t)[0] in 'aeioA' else 'a'} {t}"


def _functions(a: tuple[Closure, ...], b: tuple[Closure, ...]) -> Function:
    out = list(a)
    for closure in b:
        for i, other in enumerate(out):
            if other.code == closure.code and len(other.captured) == len(closure.captured):
                captured = tuple(join(x, y) for x, y in zip(other.captured, closure.captured, strict=True))
                out[i] = Closure(closure.code, captured)
                break
        else:
            out.append(closure)
    found = Function(tuple(out))
    if len(out) > 1 and arrays(found):
        raise Mismatch("one of several functions, of which one captures an array")
    return found


def extent(t: Type, around: frozenset[Any] = frozenset()) -> tuple[int, int]:
    """How deep the type is nested, and the number of types in it.

    A function counts where it lies in another version of itself: functions of a text that capture each other end with the text. `around`: the
    code of the functions that the type lies in.
    """
    inside: tuple[Type, ...]
    match t:
        case Tuple((head, tail), "pair"):
            # A list is as deep as its items.
            (d, n), (e, m) = extent(head, around), extent(tail, around)
            return max(1 + d, e), 1 + n + m
        case Function(alternatives):
            deepest, count = 0, 1
            for c in alternatives:
                within = around | {c.code}
                found = [extent(x, within) for x in c.captured]
                deepest = max(deepest, (c.code in around) + max((d for d, _ in found), default=0))
                count += sum(n for _, n in found)
            return deepest, count
        case Tuple(items):
            inside = items
        case List(item):
            inside = (item,)
        case _:
            return 0, 1
    found = [extent(x, around) for x in inside]
    return 1 + max((d for d, _ in found), default=0), 1 + sum(n for _, n in found)


def is_empty(t: Type) -> bool:
    """Whether no value has the type, such as a pair with an item that no path computes."""
    match t:
        case Tuple(items):
            return any(map(is_empty, items))
        case Function(alternatives):
            return all(any(map(is_empty, c.captured)) for c in alternatives)
    return isinstance(t, Nothing)


def kinds(t: Type) -> tuple[Kind, ...]:
    """The kind of each word of a value.

    A function of several alternatives has a tag, then the words of each; a list is an address; an array has no words.
    """
    match t:
        case Nothing() | Known() | Exact():
            return ()
        case Word(kind):
            return (kind,)
        case Tuple(items):
            if t.kinds is None:
                # Kept, as the parts of a pair are asked for after the pair.
                object.__setattr__(t, "kinds", tuple(k for item in items for k in kinds(item)))
                assert t.kinds is not None
            return t.kinds
        case Function(alternatives):
            words = tuple(k for c in alternatives for x in c.captured for k in kinds(x))
            return words if len(alternatives) == 1 else (Kind.INT, *words)
        case List() | Data():
            return (Kind.ADDRESS,)
        case Array() | OpenArray():
            return ()


def arrays(t: Type) -> int:
    """The number of arrays in a value, which take no words: each has a place of its own."""
    match t:
        case Array():
            return 1
        case Tuple(items):
            if t.arrays is None:
                object.__setattr__(t, "arrays", sum(map(arrays, items)))
                assert t.arrays is not None
            return t.arrays
        case Function(alternatives):
            return sum(arrays(x) for c in alternatives for x in c.captured)
    return 0


def arrays_in(t: Type) -> list[Array]:
    """The types of the arrays in a value, in the order of their places."""
    match t:
        case Array():
            return [t]
        case Tuple(items):
            return [a for item in items for a in arrays_in(item)]
        case Function(alternatives):
            return [a for c in alternatives for x in c.captured for a in arrays_in(x)]
    return []


def extent_of(t: Array) -> int:
    """The number of words from the first to the last of an array."""
    steps = zip(t.shape, t.strides, strict=True)
    return max(sum((n - 1) * abs(s) for n, s in steps) + t.element.size, 1)


# -----------------------------------------------------------------------------
# Data classes: the sums and recursive types of functional programs.
#
#     @rg.data
#     class Leaf: value: fixed
#     @rg.data
#     class Node: left: "Leaf | Node"; right: "Leaf | Node"
#
# A value lies in a cell of the heap: the number of its class, then its fields. Annotations are evaluated when they are needed, so
# they may name classes that are defined later.
#
# An object of a class with an array among its fields is a `record`: a tuple whose items have names. So are objects of
# `dataclasses.dataclass` and NamedTuple. A record is of one class, and no list and no cell holds it.

_MARK = "__retrograd_data__"
NO_DEFAULT = object()


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

    def __init__(self: Any, *args: Any, **keywords: Any) -> None:
        given = dict(zip(names, args, strict=False))
        if len(args) + len(keywords) != len(names) or {*given, *keywords} != {*names}:
            raise TypeError(f"{cls.__name__} has the fields {', '.join(names)}")
        for name in names:
            setattr(self, name, given[name] if name in given else keywords[name])

    def __repr__(self: Any) -> str:
        return f"{cls.__name__}({', '.join(repr(getattr(self, name)) for name in names)})"

    def __eq__(self: Any, other: object) -> bool:
        return type(other) is cls and all(_are_equal(getattr(self, n), getattr(other, n)) for n in names)

    # Arguments from Python are taken apart by it.
    setattr(cls, "__retrograd_record__", lambda: record_fields(cls))  # noqa: B010
    setattr(cls, "__init__", __init__)  # noqa: B010
    setattr(cls, "__repr__", __repr__)  # noqa: B010
    setattr(cls, "__eq__", __eq__)  # noqa: B010
    setattr(cls, "__hash__", object.__hash__)  # noqa: B010
    return cls


def _are_equal(x: Any, y: Any) -> bool:
    """Whether two fields are equal: arrays are, if all of their elements are."""
    return np.array_equal(x, y) if isinstance(x, np.ndarray) or isinstance(y, np.ndarray) else bool(x == y)


def fields_of(cls: type) -> dict[str, Any] | None:
    """Name -> annotation of each field, as written; None for a class that is no data class."""
    marked = cls.__dict__.get(_MARK)
    return None if marked is None else {n: annotations_of(cls)[n] for n in marked[0]}


def record_fields(cls: Any) -> dict[str, Any] | None:
    """Name -> default, or NO_DEFAULT, of the fields of a class whose objects are records; None for another class."""
    if not isinstance(cls, type):
        return None
    if (declared := fields_of(cls)) is not None:
        return dict.fromkeys(declared, NO_DEFAULT) if any(_holds_arrays(a, cls) for a in declared.values()) else None
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        made: Any = cls
        return {n: made._field_defaults.get(n, NO_DEFAULT) for n in made._fields}
    if dataclasses.is_dataclass(cls) and all(f.init for f in dataclasses.fields(cls)):
        return {f.name: NO_DEFAULT if f.default is dataclasses.MISSING else f.default for f in dataclasses.fields(cls)}
    return None


def _holds_arrays(annotation: Any, cls: type) -> bool:
    """Whether a field of a data class is an array, or has one in it."""
    try:
        return leaves_type_open(_evaluated(annotation, cls), (cls,))
    except (TypeError, NameError, SyntaxError, AttributeError):
        return False


def leaves_type_open(annotation: Any, around: tuple[type, ...] = ()) -> bool:
    """Whether an annotation names a form only, so that the value decides the type.

    Such are an array of NumPy or JAX, a dict, a class with arrays, and a list or a tuple of these.
    `around`: the classes in which the annotation stands, where an array of the language counts, too.
    """
    origin, args = get_origin(annotation), get_args(annotation)
    if any(annotation is t for t in (Any, dict, list, tuple, np.ndarray)) or origin in (dict, Mapping, np.ndarray):
        return True
    if (getattr(annotation, "__module__", ""), getattr(annotation, "__qualname__", "")) == ("jax", "Array"):
        return True
    if origin in (list, tuple):
        return any(leaves_type_open(a, around) for a in args)
    if isinstance(annotation, ArrayAnnotation):
        return bool(around)
    if annotation in around or not isinstance(annotation, type):
        return False
    declared = fields_of(annotation)
    if declared is None:
        return record_fields(annotation) is not None and not is_struct(annotation)
    return any(leaves_type_open(_evaluated(a, annotation), (*around, annotation)) for a in declared.values())


def field_types(cls: type) -> tuple[Type, ...]:
    """The types of the fields. Raises CompileError RG0722."""
    return tuple(type_of(a, cls, name) for name, a in (fields_of(cls) or {}).items())


#: what to write in place of `fixed[p]`
AT_ONE_POINT = (
    "Write `fixed`: a reversible function that calls it converts arguments and results, "
    "and rg.autoscale chooses a format with room for them."
)


class _Pointed(Exception):
    """An annotation names numbers with binary points of their own."""


def type_of(annotation: Any, cls: type | None = None, name: str = "", open_arrays: bool = False) -> Type:
    """The type that an annotation names. `open_arrays`: it may hold an `OpenArray`. Raises CompileError RG0722."""
    try:
        return _type(annotation, cls, open_arrays)
    except _Pointed as error:
        raise CompileError(Diagnostic("RG0722", f"`{name}`: {error}", hint=AT_ONE_POINT)) from None
    except (TypeError, NameError, SyntaxError, AttributeError) as error:
        where = f"the field `{name}` of `{cls.__name__}`" if cls is not None else f"`{name}`"
        hint = "Fields are fixed, int, uint, bool, tuple[…], list[…], data classes, and `A | B` of data classes."
        raise CompileError(Diagnostic("RG0722", f"{where}: {error}", hint=hint)) from None


def _evaluated(annotation: Any, cls: type | None) -> Any:
    # Text in a module with `from __future__ import annotations` is text twice.
    while isinstance(annotation, str):
        names, around = ({}, {}) if cls is None else cls.__dict__[_MARK][1:]
        own = {} if cls is None else {cls.__name__: cls}
        # The annotation is the user's own Python, written as text because it names a class that is defined later.
        annotation = eval(annotation, names, {**own, **around})
    return annotation


def _type(annotation: Any, cls: type | None, open_arrays: bool = False) -> Type:
    annotation = _evaluated(annotation, cls)
    scalar = scalar_of(annotation)
    if scalar is not None and scalar.kind.is_fixed and scalar.kind is not Kind.FIXED:
        raise _Pointed(f"functional functions have no {scalar}; their numbers have the point of the format")
    if scalar is not None:
        return Word(scalar.kind)
    if annotation is float:
        return FIXED
    if open_arrays and isinstance(annotation, ArrayAnnotation):
        element = scalar_of(annotation.element)
        if element is not None and element.kind in (Kind.INT, Kind.FIXED, Kind.BOOL):
            return OpenArray(annotation)
        raise TypeError(f"an array of {annotation.element!r:.40}, which functional functions do not give")
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        return Tuple(tuple(_type(a, cls, open_arrays) for a in args))
    if origin is list and len(args) == 1:
        return List(_type(args[0], cls))
    if origin in (Union, types.UnionType):
        parts = [_type(a, cls) for a in args]
        if all(isinstance(p, Data) for p in parts):
            return Data(frozenset(c for p in parts if isinstance(p, Data) for c in p.classes))
    if isinstance(annotation, type) and fields_of(annotation) is not None:
        if cls is not annotation and record_fields(annotation) is not None:
            raise TypeError(f"`{annotation.__name__}` has arrays, and stands in no list and in no sum of data classes")
        return Data(frozenset((annotation,)))
    if isinstance(annotation, ArrayAnnotation):
        raise TypeError("an array stands in no list, and in no sum of data classes")
    raise TypeError(f"{annotation!r:.60} is no type of the functional language")


# -----------------------------------------------------------------------------
# Values while a program is lowered: an expression for each word, and the place of each array.


@dataclass(frozen=True)
class Value:
    """The words of a value, by `types.kinds`, and the places of the arrays in it."""

    type: Type
    words: tuple[E, ...] = ()
    views: tuple[Address, ...] = ()

    def split(self, types: Sequence[Type], at: int = 0) -> list[Value]:
        """The parts of the value, of these types; the first begins at word `at`."""
        out: list[Value] = []
        seen = 0
        for t in types:
            words, views = len(kinds(t)), arrays(t)
            out.append(Value(t, self.words[at : at + words], self.views[seen : seen + views]))
            at, seen = at + words, seen + views
        return out

    def captured(self) -> list[list[Value]]:
        """The captured values of each alternative of a function."""
        assert isinstance(self.type, Function)
        alternatives = self.type.alternatives
        parts = iter(self.split([t for c in alternatives for t in c.captured], 0 if len(alternatives) == 1 else 1))
        return [[next(parts) for _ in c.captured] for c in alternatives]


class Targets(list[Var]):
    """The variables into which the words of a value are computed, and the places of its arrays."""

    arrays: tuple[ArrayView, ...] = ()


Env = dict[core.Binding, Value]


def combined(t: Type, parts: Sequence[Value]) -> Value:
    """The value of these parts."""
    return Value(t, tuple(e for p in parts for e in p.words), tuple(v for p in parts for v in p.views))


# -----------------------------------------------------------------------------
# Functions of values of any form, by recursion over their types: copies, inner products, and the types of cotangents.
#
# cotangent of a number: fixed a tuple, a list: the same of cotangents a data class: itself, with zeros for ints, uints
# and bools
#                     a function: the tuple of the cotangents of the values that it has captured, in the order of their first use;
#                     of several functions: (0, the tuple of the first, the tuple of the second …)
#
# A value and its cotangent have the same words in the same order. A derivative by lists is taken at a copy, whose cells are reached by no
# other path. So the shadows of its cells are the cotangents of that argument alone. A second copy, of zeros, becomes the cotangent: both
# copies run the same code, so a word of the second lies at the same distance from its word in the first.


class NoCotangent(TypeError):
    """A type by which nothing is differentiated: `type`."""

    def __init__(self, t: Type) -> None:
        super().__init__(str(t))
        self.type = t


def cotangent(t: Type) -> Type:
    """The type of the derivative by a value of a type. Raises NoCotangent."""
    match t:
        case Word(kind) if kind is not Kind.LOGNUM:
            return FIXED
        case Array(ScalarType(), shape):
            return Array(ScalarType(Kind.FIXED), shape, row_major(shape, 1))
        case Tuple(items):
            return t if t == BOOLEAN else Tuple(tuple(map(cotangent, items)), t.form)
        case List(item):
            return List(cotangent(item))
        case Data() | Known() | Exact() | Nothing():
            return t
        case Function(alternatives):
            held = tuple(Tuple(tuple(map(cotangent, c.captured))) for c in alternatives)
            return held[0] if len(held) == 1 else Tuple((FIXED, *held))
    raise NoCotangent(t)


def has_cells(types: Sequence[Type]) -> bool:
    """Whether values of these types have cells in the heap."""
    return any(k is Kind.ADDRESS for t in types for k in kinds(t))


def parts(t: Type) -> list[tuple[int, Type]]:
    """The values directly inside a tuple or a function: the word at which each begins, and its type."""
    inside: list[Type]
    at, out = 0, []
    match t:
        case Tuple(items):
            inside = list(items)
        case Function(alternatives):
            inside = [x for c in alternatives for x in c.captured]
            at = int(len(alternatives) > 1)
        case _:
            return []
    for x in inside:
        out.append((at, x))
        at += len(kinds(x))
    return out


def both(t: Type, d: Type) -> list[tuple[int, Type, Type]]:
    """The values directly inside a value and its cotangent: the word at which each begins, and both types."""
    others = list(d.items) if isinstance(d, Tuple) else []
    if isinstance(t, Function) and len(t.alternatives) > 1:
        others = [x for held in others if isinstance(held, Tuple) for x in held.items]
    return [(at, inside, other) for (at, inside), other in zip(parts(t), others, strict=True)]


class Structures:
    """The functions that take lists and data classes apart, in core: each is written when a type needs it.

    copy(x, k): the same cells, and each number times k, which is 1 or 0. dot(x, d): Σ of products of the fixed numbers of x and d. An item
    that one of them lacks counts as zero.
    """

    def __init__(self) -> None:
        self._codes: dict[tuple[str, Type], core.Lambda] = {}

    def code(self, op: str, t: Type, at: core.Place) -> core.Lambda:
        """The function for a list or a data class."""
        found = self._codes.get((op, t))
        if found is None:
            x, other = core.Binding("x", at), core.Binding("k" if op == "copy" else "d", at)
            body = self._copied(t, x, other, at) if op == "copy" else self._product(t, x, other, at)
            found = self._codes[op, t] = core.Lambda(op, (x, other), body, at)
        return found

    def _copied(self, t: Type, x: core.Binding, k: core.Binding, at: core.Place) -> core.Core:
        def copied(b: core.Binding) -> core.Core:
            return core.Structural("copy", (core.Ref(b, at), core.Ref(k, at)), at)

        def made(cls: type, fields: Sequence[core.Binding]) -> core.Core:
            return core.Build(None if cls in (list, type(None)) else cls, tuple(map(copied, fields)), at)

        cases = [core.Case(cls, own, made(cls, own)) for cls, own in _fields(t, at)]
        return core.Match(core.Ref(x, at), tuple(cases), None, at)

    def _product(self, t: Type, x: core.Binding, d: core.Binding, at: core.Place) -> core.Core:
        zero = core.Number(0.0, at)

        def product(own: Sequence[core.Binding], others: Sequence[core.Binding]) -> core.Core:
            terms = [
                core.Structural("dot", (core.Ref(a, at), core.Ref(b, at)), at) for a, b in zip(own, others, strict=True)
            ]
            total: core.Core = terms[0] if terms else zero
            for term in terms[1:]:
                total = core.Operation("+", (total, term), at)
            return total

        cases: list[core.Case] = []
        for (cls, own), (_, others) in zip(_fields(t, at), _fields(t, at), strict=True):
            alike = core.Case(cls, others, product(own, others))
            cases.append(core.Case(cls, own, core.Match(core.Ref(d, at), (alike,), zero, at)))
        return core.Match(core.Ref(x, at), tuple(cases), None, at)


def _fields(t: Type, at: core.Place) -> list[tuple[type, tuple[core.Binding, ...]]]:
    """The classes of a data type or a list, each with bindings for its fields."""
    classes: list[tuple[type, int]]
    if isinstance(t, Data):
        classes = [(c, len(field_types(c))) for c in sorted(t.classes, key=lambda c: c.__name__)]
    else:
        classes = [(type(None), 0), (list, 2)]
    return [(c, tuple(core.Binding(f"{c.__name__}{k}", at) for k in range(n))) for c, n in classes]


class StructureLowering:
    """Copies and products of values: numbers here, lists and data classes by calls (`called`) of the functions of `structures`."""

    def __init__(
        self,
        arithmetic: Arithmetic,
        structures: Structures,
        called: Callable[[Closure, list[Value], core.Place], Value],
        of_arrays: Callable[[Value, Value, core.Place], E],
    ) -> None:
        """`of_arrays`: the inner product of two arrays."""
        self._arithmetic, self._structures, self._called = arithmetic, structures, called
        self._of_arrays = of_arrays

    def value(self, op: str, args: Sequence[Value], at: core.Place) -> Value:
        """The value of a core.Structural."""
        if op == "zero":
            return self.zero(args[0], at)
        return (self.copy if op == "copy" else self.dot)(args[0], args[1], at)

    def copy(self, x: Value, k: Value, at: core.Place) -> Value:
        """The value in new cells, its numbers times k."""
        match x.type:
            case Word(kind):
                return Value(x.type, (self._times(x.words[0], kind, k.words[0]),))
            case List(Nothing()):
                return x
            case List() | Data():
                return self._called(Closure(self._structures.code("copy", x.type, at)), [x, k], at)
        inside = [Value(t, x.words[i : i + len(kinds(t))]) for i, t in parts(x.type)]
        made = combined(x.type, [self.copy(p, k, at) for p in inside])
        tag = x.words[: len(x.words) - len(made.words)]
        return Value(x.type, (*(self._times(e, Kind.INT, k.words[0]) for e in tag), *made.words))

    def dot(self, x: Value, d: Value, at: core.Place) -> Value:
        """The sum of the products of the fixed numbers of x with those of its cotangent."""
        match x.type:
            case Word(kind):
                product = self._number("*", x.words[0], d.words[0]) if kind is Kind.FIXED else const(0, Kind.FIXED)
                return Value(FIXED, (product,))
            case List(Nothing()):
                return Value(FIXED, (const(0, Kind.FIXED),))
            case List() | Data():
                return self._called(Closure(self._structures.code("dot", x.type, at)), [x, d], at)
            case Array(ScalarType(kind)):
                of_ints = kind is not Kind.FIXED
                return Value(FIXED, (const(0, Kind.FIXED) if of_ints else self._of_arrays(x, d, at),))
        total: E | None = None
        seen = 0
        for i, t, other in both(x.type, d.type):
            n, views = len(kinds(t)), slice(seen, seen + arrays(t))
            seen = views.stop
            own = Value(t, x.words[i : i + n], x.views[views])
            term = self.dot(own, Value(other, d.words[i : i + n], d.views[views]), at).words[0]
            total = term if total is None else self._number("+", total, term)
        return Value(FIXED, (const(0, Kind.FIXED) if total is None else total,))

    def zero(self, x: Value, at: core.Place) -> Value:
        """Zeros of the form of x: a cotangent of it."""
        return Value(cotangent(x.type), self.copy(x, Value(INT, (const(0, Kind.INT),)), at).words)

    def _times(self, x: E, kind: Kind, k: E) -> E:
        """x where k is 1, zero where it is 0."""
        if k.op == "const":
            return x if k.param else const(0, kind)
        if kind is Kind.BOOL:
            return choose(self._number("!=", k, const(0, Kind.INT)), x, const(0, kind))
        return self._number("*", x, k)

    def _number(self, op: str, *operands: E) -> E:
        given = [Constant(e.param) if e.op == "const" and e.kind is Kind.INT else Scalar(e) for e in operands]
        return self._arithmetic.expression(self._arithmetic.binary(op, *given))
