"""Values of names and expressions while a function is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
from retrograd.compiler.ir.expressions import Address, E, InRange, Length, load, read
from retrograd.compiler.ir.statements import Kind, Var
from retrograd.compiler.language.types import (
    COMPLEX,
    ArrayAnnotation,
    ArrayType,
    ScalarType,
    StackType,
    StaticType,
    StructType,
    Type,
    complete,
    element_of,
    mismatch,
    row_major,
    struct_of,
    tuple_of,
)
from retrograd.isa.words import brief


@dataclass(frozen=True)
class Constant:
    """A Python value known when the program is compiled; its type is chosen where it is used."""

    value: Any


@dataclass(frozen=True)
class Scalar:
    """One word: its expression, and the place where it is stored, if any. `why_not`: the reason why it cannot be changed."""

    e: E
    place: Var | Address | None = None
    why_not: str | None = "it is the value of an expression"

    @property
    def kind(self) -> Kind:
        return self.e.kind


@dataclass(frozen=True)
class ArrayView:
    """Elements in memory: the element with indices i lies at address + Σ stride · i, strides counted in words."""

    element: ScalarType | StructType
    shape: tuple[Length, ...]
    strides: tuple[int, ...]
    address: Address
    why_not: str | None = None

    def at(self, index: E, axis: int = 0, checks: tuple[InRange, ...] = ()) -> Address:
        """The address of the elements with this index on an axis."""
        return self.address.shifted(index, self.strides[axis], *checks)

    def without(self, axis: int, address: Address) -> ArrayView:
        """The view that is left when an axis is indexed."""
        shape, strides = list(self.shape), list(self.strides)
        del shape[axis], strides[axis]
        return replace(self, shape=tuple(shape), strides=tuple(strides), address=address)

    def item(self) -> Value:
        """The one element of a view without axes."""
        return stored(self.element, self.address, self.why_not)


@dataclass(frozen=True)
class MeasuredArray:
    """An array that the host reads, in row-major order. A length that is None is known when the program runs."""

    element: ScalarType
    lengths: tuple[int | None, ...]
    address: Address


@dataclass(frozen=True)
class Lazy:
    """An array expression: `element(indices)` computes one element."""

    shape: tuple[Length, ...]
    element: Callable[[tuple[E, ...]], Value]


@dataclass(frozen=True)
class StructValue:
    """A struct: a value for each field."""

    type: StructType
    fields: dict[str, Value]


@dataclass(frozen=True)
class StackValue:
    """A stack in memory: a count, then the words."""

    type: StackType
    address: Address
    why_not: str | None = None


@dataclass(frozen=True)
class FunctionValue:
    """A reversible function, or its inverse; with the object before the dot where it is a method.

    `captured`: the variables of the function around it that an inner function uses, passed with each call.
    """

    function: Any
    backward: bool = False
    receiver: Value | None = None
    captured: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True)
class RoutineValue:
    """The name that `with rg.routine() as r` binds."""

    name: str


Value = Constant | Scalar | ArrayView | MeasuredArray | Lazy | StructValue | StackValue | FunctionValue | RoutineValue


def type_of(value: Value) -> Type:
    """The type of a value; that of a function or another constant leaves out which one it is."""
    match value:
        case Scalar():
            return ScalarType(value.kind)
        case ArrayView(element, shape) if any(not isinstance(n, int) for n in shape):
            return StaticType(None)
        case ArrayView(element, shape):
            return ArrayType(element, tuple(n for n in shape if isinstance(n, int)))
        case StructValue() | StackValue():
            return value.type
        case _:
            return StaticType(None)


def tuple_value(items: Sequence[Value]) -> StructValue:
    """A tuple of values: a struct with a field for each item."""
    t = tuple_of([type_of(v) for v in items])
    return StructValue(t, {name: v for (name, _), v in zip(t.fields, items, strict=True)})


def variable(var: Var, why_not: str | None = None) -> Scalar:
    return Scalar(read(var), var, why_not)


def stored(t: Any, address: Address, why_not: str | None = None) -> Value:
    """The value of a type that lies at an address."""
    match t:
        case ScalarType(kind):
            return Scalar(load(address, kind), address, why_not)
        case ArrayType(element, shape):
            return ArrayView(element, shape, row_major(shape, element.size), address, why_not)
        case StructType(_, fields):
            return StructValue(
                t, {name: stored(inner, address.moved(t.offset(name)), why_not) for name, inner in fields}
            )
        case StackType():
            return StackValue(t, address, why_not)
    raise TypeError(t)


def struct_type(cls: Any, fields: Mapping[str, Value]) -> StructType:
    """The type of a struct of these fields. Raises TypeError where the shape of one is not known."""
    known = struct_of(cls)
    if known is not None:
        return known
    sizes: dict[str, int] = {}
    types: list[tuple[str, Type]] = []
    for name, annotation in cls.__retrograd_fields__.items():
        match annotation, fields[name]:
            case ArrayAnnotation(), ArrayView(element, shape) if all(isinstance(n, int) for n in shape):
                t: Type = ArrayType(element, tuple(n for n in shape if isinstance(n, int)))
            case ArrayAnnotation(), Constant(value) if element_of(annotation.element) is not None:
                t = complete(ArrayAnnotation(annotation.element, np.shape(value)))
            case _, StructValue(inner):
                t = inner
            case ArrayAnnotation(), ArrayView():
                how = "a struct is made for known lengths; pass the array as an argument of its own"
                raise TypeError(
                    f"the length of `{name}` of `{cls.__name__}` is known only when the program runs; {how}"
                )
            case ArrayAnnotation(), value:
                how = "give it a name first, `t = …`, which makes an array of it"
                raise TypeError(
                    f"`{name}` of `{cls.__name__}` is {annotation}, and {describe(value)} has no place of its own; {how}"
                )
            case _:
                t = complete(annotation)
        problem = (
            mismatch(annotation, t.element, t.shape, sizes)
            if isinstance(annotation, ArrayAnnotation) and isinstance(t, ArrayType)
            else None
        )
        if problem is not None:
            how = "make the lengths agree: a name in quotes is one length in the whole struct"
            raise TypeError(
                f"`{name}` of `{cls.__name__}` is {annotation}, and {describe(fields[name])} is not: {problem}; {how}"
            )
        types.append((name, t))
    return StructType(cls, tuple(types))


def scalars(value: Value) -> Iterator[Scalar]:
    """The words of a number or a struct of numbers."""
    match value:
        case Scalar():
            yield value
        case StructValue(_, fields):
            for inner in fields.values():
                yield from scalars(inner)
        case _:
            pass


def is_number(value: Value) -> bool:
    """Whether a value is one number, real or of the type `complex`: in Python such an object never changes."""
    return isinstance(value, Scalar) or (isinstance(value, StructValue) and value.type == COMPLEX)


def read_only(value: Value, why_not: str) -> Value:
    """The number, which cannot be changed by this name."""
    match value:
        case Scalar():
            return replace(value, why_not=value.why_not or why_not)
        case StructValue(t, fields):
            return StructValue(t, {name: read_only(inner, why_not) for name, inner in fields.items()})
    return value


def overlap(value: Value, other: Value) -> bool:
    """Whether two values may have a word in common: a variable, or words of one array that are not certainly apart."""
    if isinstance(value, ArrayView | StackValue) or isinstance(other, ArrayView | StackValue):
        return any(
            isinstance(x, Address) and isinstance(y, Address) and x.region is y.region
            for x in _places(value)
            for y in _places(other)
        )
    return any(_same(x, y) for x in _places(value) for y in _places(other))


def _places(value: Value) -> Iterator[Var | Address]:
    match value:
        case Scalar(place=Var() | Address() as place):
            yield place
        case ArrayView(address=address) | StackValue(address=address):
            yield address
        case StructValue(_, fields):
            for inner in fields.values():
                yield from _places(inner)
        case _:
            pass


def _same(x: Var | Address, y: Var | Address) -> bool:
    if isinstance(x, Address) and isinstance(y, Address):
        return x.region is y.region and x.minus(y) in (0, None)
    return x is y


def count_of(stack: StackValue) -> E:
    """The number of words on a stack."""
    return load(stack.address, Kind.INT)


def describe(value: Value) -> str:
    """A value's type in words, for messages."""
    match value:
        case Constant(v):
            if isinstance(v, ModuleType):
                return f"the module {v.__name__}"
            if isinstance(v, type) or callable(v):
                return f"`{getattr(v, '__name__', v)}`"
            if isinstance(v, int):
                return f"the constant {brief(v)}"
            return f"the constant {getattr(v, 'item', lambda: v)() if getattr(v, 'ndim', 1) == 0 else v!r}"[:60]
        case Scalar():
            return f"{'an' if value.kind is Kind.INT else 'a'} {value.kind.value}"
        case ArrayView(element, shape):
            return f"an array of {element} of shape {shape}"
        case Lazy(shape) | MeasuredArray(lengths=shape):
            return f"an array of shape {shape}"
        case StructValue(t):
            return f"a {t} of {len(t.fields)}" if t.is_tuple else f"a {t}"
        case StackValue(t):
            return f"a {t}"
        case FunctionValue(f):
            return f"the function {f.__name__}"
        case RoutineValue(name):
            return f"the routine {name}"
