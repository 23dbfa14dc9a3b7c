"""The types of the language, and the annotations that name them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from retrograd.compiler.ir.statements import Kind
from retrograd.isa.diagnostics import CompileError, Diagnostic, statement_of
from retrograd.isa.program import ArrayLayout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: a length: an integer, or a length that is known only when the program runs
L = TypeVar("L")


@dataclass(frozen=True)
class ScalarType:
    """One word."""

    kind: Kind

    @property
    def size(self) -> int:
        return 1

    def __str__(self) -> str:
        return self.kind.value


@dataclass(frozen=True)
class ArrayType:
    """Elements of one type in row-major order."""

    element: ScalarType | StructType
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.shape) * self.element.size

    def __str__(self) -> str:
        return f"Array[{self.element}, {', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class StructType:
    """The fields of a class made by `struct`, one after the other."""

    cls: type
    fields: tuple[tuple[str, Type], ...]

    @property
    def size(self) -> int:
        return sum(t.size for _, t in self.fields)

    def offset(self, name: str) -> int:
        """Where in the struct a field lies, in words."""
        at = 0
        for field, t in self.fields:
            if field == name:
                return at
            at += t.size
        raise KeyError(name)

    @property
    def is_tuple(self) -> bool:
        """Whether its fields are the items of a tuple or a list."""
        return all(name == item_name(i) for i, (name, _) in enumerate(self.fields))

    def __str__(self) -> str:
        return "complex" if self.cls is ComplexNumber else self.cls.__name__


def item_name(i: int) -> str:
    """The name of a field that item i of a tuple or a list is kept in."""
    return f"item{i}"


def part_name(name: str, t: StructType, field: str) -> str:
    """A field of a struct in messages: `z.re`; an item of a tuple: `xs[0]`."""
    return f"{name}[{field.removeprefix('item')}]" if t.is_tuple else f"{name}.{field}"


def tuple_of(types: Sequence[Type]) -> StructType:
    """The type of a tuple of values of these types."""
    return StructType(tuple, tuple((item_name(i), t) for i, t in enumerate(types)))


@dataclass(frozen=True)
class StackType:
    """A count, and room for `capacity` words that are zero from the count on."""

    element: ScalarType
    capacity: int

    @property
    def size(self) -> int:
        return self.capacity + 1

    def __str__(self) -> str:
        return f"Stack[{self.element}, {self.capacity}]"


@dataclass(frozen=True)
class StaticType:
    """A value known when the program is compiled: a number, a tuple, a function. It takes no words."""

    value: Any

    @property
    def size(self) -> int:
        return 0

    def __str__(self) -> str:
        return f"static {getattr(self.value, '__name__', self.value)}"


Type = ScalarType | ArrayType | StructType | StackType | StaticType

INT, UINT, FIXED, LOGNUM, BOOL = (ScalarType(k) for k in (Kind.INT, Kind.UINT, Kind.FIXED, Kind.LOGNUM, Kind.BOOL))


class ComplexNumber(complex):
    """A complex number of which both parts, `re` and `im`, keep the words they were made from."""

    re: float
    im: float
    __retrograd_fields__ = MappingProxyType({"re": float, "im": float})
    __retrograd_defaults__ = MappingProxyType({"im": 0.0})

    def __new__(cls, re: float, im: float = 0.0) -> ComplexNumber:
        made = super().__new__(cls, re, im)
        made.re, made.im = re, im
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.re, self.im


#: the type that the annotation `complex` names
COMPLEX = StructType(ComplexNumber, (("re", FIXED), ("im", FIXED)))


def is_complex(t: Any) -> bool:
    """Whether a type is that of complex numbers: a struct of two fixed numbers `re` and `im`."""
    return isinstance(t, StructType) and t.fields == COMPLEX.fields


# ------------------------------------------------------------------ annotations


def _refuse(message: str, hint: str) -> NoReturn:
    """Raise RG0703 at the annotation that is being evaluated."""
    span, line = statement_of(sys._getframe(2))
    raise CompileError(Diagnostic("RG0703", message, span, hint, line))


@dataclass(frozen=True)
class ArrayAnnotation:
    """`Array[fixed, 3, "n"]`: an element type and dimensions. A name is one length throughout the parameters of a function."""

    element: Any
    dims: tuple[int | str, ...] | None

    def __str__(self) -> str:
        dims = "" if self.dims is None else "".join(f", {d!r}" for d in self.dims)
        return f"Array[{getattr(self.element, '__name__', self.element)}{dims}]"


@dataclass(frozen=True)
class StackAnnotation:
    """`Stack[fixed, 100]`: an element type and a capacity."""

    element: Any
    capacity: int

    def __str__(self) -> str:
        return f"Stack[{getattr(self.element, '__name__', self.element)}, {self.capacity}]"


if TYPE_CHECKING:
    # To a type checker an array is one of its elements, on which the operators of both are declared.
    from typing import Annotated as Array
    from typing import Annotated as Stack
else:

    class Array:
        """`Array[fixed, n, m]`: an array of numbers or structs; `Array[fixed, ...]`: of any shape.

        Dimensions are integers, or names in quotes: one name means one length throughout a function's parameters.
        """

        def __new__(cls, *_: Any, **__: Any) -> Any:
            hint = "Write `Array[fixed, 3]`; within a function, `t = rg.zeros(3)` makes an array."
            _refuse("`Array(…)`: an array's type is written in square brackets", hint)

        def __class_getitem__(cls, items: Any) -> Any:
            if not isinstance(items, tuple):
                return ArrayAnnotation(items, None)
            element, *dims = items
            if dims == [...]:
                return ArrayAnnotation(element, None)
            for d in dims:
                if not isinstance(d, int | str) or isinstance(d, bool) or (isinstance(d, int) and d < 0):
                    hint = 'Write a length from 0 on, `Array[fixed, 3]`, or a name in quotes, `Array[fixed, "n"]`.'
                    _refuse(f"a dimension of an Array cannot be {d!r:.40}", hint)
            return ArrayAnnotation(element, tuple(dims))

    class Stack:
        """`Stack[fixed, 100]`: a stack of up to 100 numbers, for `push` and `pop`."""

        def __new__(cls, *_: Any, **__: Any) -> Any:
            hint = "Write `Stack[int, 100]`; within a function, `s = rg.stack(int, 100)` makes a stack."
            _refuse("`Stack(…)`: a stack's type is written in square brackets", hint)

        def __class_getitem__(cls, items: Any) -> Any:
            if not isinstance(items, tuple) or len(items) != 2 or not isinstance(items[1], int):
                hint = "Write the type of a word and the number of words: `Stack[int, 100]`."
                _refuse("a Stack has an element type and a capacity", hint)
            return StackAnnotation(*items)


if TYPE_CHECKING:
    static = Any
else:

    class static:
        """Marks a parameter whose value is known when the program is compiled; the function is specialised on it."""


def scalar_of(annotation: Any) -> ScalarType | None:
    """The scalar that an annotation names: int, uint, bool, float (as fixed), fixed, lognum; None for anything else."""
    if annotation is bool:
        return BOOL
    if annotation is int:
        return INT
    if annotation is float:
        return FIXED
    kind = getattr(annotation, "retrograd_kind", None) if isinstance(annotation, type) else None
    return None if kind is None else ScalarType(Kind(kind))


def element_of(annotation: Any) -> ScalarType | StructType | None:
    """The scalar or struct that an annotation names, or None."""
    return scalar_of(annotation) or struct_of(annotation)


def is_struct(cls: Any) -> bool:
    """Whether an object is a class made by `struct`."""
    return isinstance(cls, type) and "__retrograd_fields__" in cls.__dict__


def is_open(cls: Any) -> bool:
    """Whether an object is a class made by `struct` with a field that leaves its shape open: each value decides it."""
    return is_struct(cls) and any(_is_open_field(annotation) for annotation in cls.__retrograd_fields__.values())


def _is_open_field(annotation: Any) -> bool:
    dims = annotation.dims if isinstance(annotation, ArrayAnnotation) else ()
    return dims is None or any(isinstance(d, str) for d in dims) or is_open(annotation)


def struct_of(cls: Any) -> StructType | None:
    """The type of a class made by `struct`; None for any other object, and where a field leaves its shape open."""
    if cls is complex:
        return COMPLEX
    if not is_struct(cls) or is_open(cls):
        return None
    fields = cls.__retrograd_fields__
    return StructType(cls, tuple((name, complete(annotation)) for name, annotation in fields.items()))


def array_of_known_length(annotation: Any) -> Any:
    """The annotation of an array with a length in place of each that is open; any other annotation as it is."""
    if not isinstance(annotation, ArrayAnnotation):
        return annotation
    return ArrayAnnotation(annotation.element, tuple(d if isinstance(d, int) else 1 for d in annotation.dims or (1,)))


def complete(annotation: Any) -> Type:
    """The type that an annotation names all of. Raises TypeError where it leaves a shape open, or names no type."""
    if isinstance(annotation, ArrayAnnotation):
        element = element_of(annotation.element)
        lengths = [d for d in annotation.dims or () if isinstance(d, int)]
        if element is None or annotation.dims is None or len(lengths) < len(annotation.dims):
            raise TypeError(f"{annotation} leaves its shape open")
        return ArrayType(element, tuple(lengths))
    if isinstance(annotation, StackAnnotation):
        element = scalar_of(annotation.element)
        if element is None:
            raise TypeError("a Stack holds scalars")
        return StackType(element, annotation.capacity)
    found = element_of(annotation)
    if found is None:
        raise TypeError(f"{annotation!r} names no type of the language")
    return found


def leaves(t: Type, name: str) -> Iterator[tuple[str, int, ScalarType | ArrayType | StackType]]:
    """(name, offset in words, type) of the scalars, arrays and stacks that a value of this type is made of."""
    if isinstance(t, StructType):
        at = 0
        for field, inner in t.fields:
            for leaf, offset, what in leaves(inner, part_name(name, t, field)):
                yield leaf, at + offset, what
            at += inner.size
    elif not isinstance(t, StaticType):
        yield name, 0, t


def row_major(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """The strides of an array that lies densely, the last index moving fastest."""
    strides: list[int] = []
    for length in reversed(shape):
        strides.insert(0, size)
        size *= length
    return tuple(strides)


def layouts(
    t: Type, name: str, offset: int = 0, shape: tuple[int, ...] = (), strides: tuple[int, ...] = ()
) -> Iterator[ArrayLayout]:
    """The layouts of a value of this type, or of an array of such values with this shape: one for each field."""
    match t:
        case ScalarType(kind):
            yield ArrayLayout(name, kind.value, offset, shape, strides)
        case ArrayType(element, lengths):
            steps = row_major(lengths, element.size)
            yield from layouts(element, name, offset, (*shape, *lengths), (*strides, *steps))
        case StructType(_, fields):
            for field, inner in fields:
                yield from layouts(inner, part_name(name, t, field), offset, shape, strides)
                offset += inner.size
        case StackType(element, capacity):
            # A local stack is an array of one.
            alone = shape == (1,)
            outer, steps = ((), ()) if alone else (shape, strides)
            yield ArrayLayout(name, element.kind.value, offset + 1, (*outer, capacity), (*steps, 1), stack=True)
        case StaticType():
            return


def is_real(t: Type) -> bool:
    """Whether a value of this type holds a number that has a derivative: fixed or lognum."""
    match t:
        case ScalarType(kind):
            return kind in (Kind.FIXED, Kind.LOGNUM)
        case ArrayType(element):
            return is_real(element)
        case StructType(_, fields):
            return any(is_real(inner) for _, inner in fields)
    return False


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def mismatch(
    wanted: ArrayAnnotation, element: ScalarType | StructType, shape: Sequence[L], sizes: dict[str, L]
) -> str | None:
    """Why an array of this shape does not have the annotated type, or None. `sizes`: the lengths of named dimensions so far."""
    matches = isinstance(element, StructType) and is_open(wanted.element) and element.cls is wanted.element
    if not matches and element_of(wanted.element) != element:
        return f"its elements are {element}"
    if wanted.dims is None:
        return None
    if len(wanted.dims) != len(shape):
        return f"it has {_axes(len(shape))}, not {len(wanted.dims)}" if shape else "it is one number"
    for dim, length in zip(wanted.dims, shape, strict=True):
        expected: L | int = sizes.setdefault(dim, length) if isinstance(dim, str) else dim
        if expected != length:
            return f"its shape is {tuple(shape)}" + (
                f", where {dim} is {expected} already" if isinstance(dim, str) else ""
            )
    return None
