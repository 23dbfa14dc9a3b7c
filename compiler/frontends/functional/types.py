"""Types of the functional language, found by inference: words, tuples, functions, lists, data classes.

A function type is the set of the functions that a value may be, each with the types of the values that it has captured. So a call
of a value that can be one function only is direct; of several, it is a branch on a tag (defunctionalisation by types).
Source: the sets are those of Brandon et al., Better Defunctionalization through Lambda Set Specialization, PLDI 2023.
"""

from __future__ import annotations

import inspect
import types
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Union, get_args, get_origin

from retrograd.compiler.frontends.constants import annotations_of
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import ScalarType, StructType, scalar_of
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

    def __str__(self) -> str:
        return self.form or f"tuple[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True)
class Known:
    """The type of one constant, which takes no words: of VLAD, #t, #f, or a symbol."""

    value: bool | str

    def __str__(self) -> str:
        return f"symbol {self.value}" if isinstance(self.value, str) else "#t" if self.value else "#f"


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


Type = Nothing | Word | Tuple | Known | Function | List | Data | Array

#: (function, types of the captured values, types of its arguments)
Key = tuple[Any, tuple[Type, ...], tuple[Type, ...]]

NOTHING = Nothing()
#: pairs of a list that is made of words, and not of cells: so a list that is built by recursion has one type in the end
_LONGEST = 16
INT, FIXED, BOOL = Word(Kind.INT), Word(Kind.FIXED), Word(Kind.BOOL)
#: of VLAD: #t or #f
BOOLEAN = Tuple((BOOL,), "boolean")


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
            if {a, b} <= {Kind.INT, Kind.FIXED, Kind.BOOL}:
                return FIXED if Kind.FIXED in (a, b) else INT
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
    raise Mismatch(f"{named(x)} and {named(y)}")


def as_list(t: Type) -> List:
    """The type of a chain of pairs as that of a list in the heap. Raises Mismatch."""
    match t:
        case List():
            return t
        case Tuple((), "nil"):
            return List(NOTHING)
        case Tuple((head, tail), "pair"):
            return List(join(head, as_list(tail).item))
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


def _is_truth(t: Type) -> bool:
    return isinstance(t, Tuple) or (isinstance(t, Known) and isinstance(t.value, bool))


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
    return Function(tuple(out))


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
        case Nothing() | Known():
            return ()
        case Word(kind):
            return (kind,)
        case Tuple(items):
            return tuple(k for item in items for k in kinds(item))
        case Function(alternatives):
            words = tuple(k for c in alternatives for x in c.captured for k in kinds(x))
            return words if len(alternatives) == 1 else (Kind.INT, *words)
        case List() | Data():
            return (Kind.ADDRESS,)
        case Array():
            return ()


def arrays(t: Type) -> int:
    """The number of arrays in a value, which take no words: each has a place of its own."""
    match t:
        case Array():
            return 1
        case Tuple(items):
            return sum(map(arrays, items))
        case Function(alternatives):
            return sum(arrays(x) for c in alternatives for x in c.captured)
    return 0


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
