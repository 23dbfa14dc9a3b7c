"""Values of names and expressions while a function is compiled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod
from operator import mul
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from retrograd.compiler.ir.expressions import (
    Address,
    E,
    InRange,
    Length,
    difference_of,
    linear,
    load,
    negated,
    read,
    walk,
)
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import Block, Const, If, Kind, Local, Operand, Test, Var, invert
from retrograd.compiler.language.types import (
    COMPLEX,
    FIXED,
    INT,
    ArrayAnnotation,
    ArrayType,
    ScalarType,
    StackType,
    StaticType,
    StructType,
    Type,
    complete,
    element_of,
    is_known,
    known,
    mismatch,
    row_major,
    struct_of,
    tuple_of,
)
from retrograd.isa.diagnostics import Span, advised
from retrograd.isa.words import Format, brief


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

    element: ScalarType | StructType | StackType
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

    element: ScalarType | StackType
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

    @property
    def words(self) -> ArrayView:
        """The count and the room, as integers."""
        return ArrayView(INT, (self.type.size,), (1,), self.address)


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
                message = f"the length of `{name}` of `{cls.__name__}` is known only when the program runs"
                raise advised(TypeError(message), how)
            case ArrayAnnotation(), value:
                how = "give it a name first, `t = …`, which makes an array of it"
                message = f"`{name}` of `{cls.__name__}` is {annotation}, and {describe(value)} has no place of its own"
                raise advised(TypeError(message), how)
            case _:
                t = complete(annotation)
        problem = (
            mismatch(annotation, t.element, t.shape, sizes)
            if isinstance(annotation, ArrayAnnotation) and isinstance(t, ArrayType)
            else None
        )
        if problem is not None:
            how = "make the lengths agree: a name in quotes is one length in the whole struct"
            message = f"`{name}` of `{cls.__name__}` is {annotation}, and {describe(fields[name])} is not: {problem}"
            raise advised(TypeError(message), how)
        types.append((name, t))
    return StructType(cls, tuple(types))


def parts(value: Value) -> Iterator[Value]:
    """The values that a value is made of: those of the fields of a struct, at all depths, or the value itself."""
    if isinstance(value, StructValue):
        for inner in value.fields.values():
            yield from parts(inner)
    else:
        yield value


def mapped(value: Value, made: Callable[[Value], Value]) -> Value:
    """The value with another one in place of each of its parts."""
    if isinstance(value, StructValue):
        return StructValue(value.type, {name: mapped(inner, made) for name, inner in value.fields.items()})
    return made(value)


def scalars(value: Value) -> Iterator[Scalar]:
    """The words of a number or a struct of numbers."""
    return (x for x in parts(value) if isinstance(x, Scalar))


def places(value: Value) -> Iterator[Var | Address]:
    """The variables and the addresses in memory of a value."""
    for x in parts(value):
        match x:
            case Scalar(place=Var() | Address() as place):
                yield place
            case ArrayView(address=address) | StackValue(address=address):
                yield address
            case _:
                pass


def is_number(value: Value) -> bool:
    """Whether a value is one number, real or of the type `complex`: in Python such an object never changes."""
    return isinstance(value, Scalar) or (isinstance(value, StructValue) and value.type == COMPLEX)


def read_only(value: Value, why_not: str) -> Value:
    """The number, which cannot be changed by this name."""
    return mapped(value, lambda x: replace(x, why_not=x.why_not or why_not) if isinstance(x, Scalar) else x)


def overlap(value: Value, other: Value) -> bool:
    """Whether two values may have a word in common: a variable, or words of one array that are not certainly apart."""
    if isinstance(value, ArrayView | StackValue) or isinstance(other, ArrayView | StackValue):
        return any(
            isinstance(x, Address) and isinstance(y, Address) and x.region is y.region
            for x in places(value)
            for y in places(other)
        )
    return any(_same(x, y) for x in places(value) for y in places(other))


def needed_distance(x: ArrayView, y: ArrayView, w: Format) -> int | None:
    """How far the words of two views of one shape must be apart for no word of one to be another element of the other.

    0: it is certainly none; None: it certainly is one. Trap: views that are not dense, with indices of the run, count as apart.
    """
    distance, same = x.address.minus(y.address), x.strides == y.strides
    if x.address.region is not y.address.region or not is_known(x.shape) or (same and distance == 0):
        return 0
    size = prod(x.shape) * x.element.size
    dense = same and x.strides == row_major(x.shape, x.element.size)
    if distance is not None and dense:
        return None if abs(distance) < size else 0
    if distance is not None:
        one, other = ({sum(map(mul, i, v.strides)) for i in product(*map(range, known(v.shape)))} for v in (x, y))
        return 0 if one.isdisjoint(word - distance for word in other) else None
    # The distance is a multiple of `common` and a rest, as that of two rows, which are the same or apart.
    terms, rest = linear(difference_of(x.address, y.address, w))
    common = gcd(*terms.values())
    return 0 if not dense or (rest % common == 0 and common >= size) else size


def disjoint_by_stride(at: Address, place: ArrayView) -> bool:
    """Whether an address that moves in steps of the strides of a view misses it: another column, another field."""
    steps = [abs(k) for _, k in at.terms] + [abs(s) for s in place.strides]
    common = gcd(*steps) if steps else 0
    distance = at.offset - place.address.offset
    same_base = at.base is place.address.base
    return (
        same_base and common > 1 and not place.address.terms and place.element.size <= distance % common <= common - 1
    )


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


# -----------------------------------------------------------------------------
# Types of lists and of values of data classes among the arguments of a function.
#
#     value  ↔  fixed numbers, and integers: its ints and bools, the lengths of its lists, the numbers of its classes
#
# The form of a value is its integers without ints, uints and bools: two values of one form differ in numbers only. A
# program is compiled for each form of
# its arguments, as for each shape of an array.

#: the integers of a value; None for each int, uint and bool
Form = tuple[int | None, ...]


class Encoded(NamedTuple):
    """The numbers of a value, its integers, its form, and the places of its uints among the integers."""

    numbers: list[float]
    integers: list[int]
    form: Form
    uints: tuple[int, ...]


class Structure(ABC):
    """The type of lists or data classes that an annotation names. `str(structure)` is the annotation."""

    @property
    @abstractmethod
    def holds_numbers(self) -> bool:
        """Whether values of this type may hold fixed numbers."""

    @abstractmethod
    def encoded(self, value: Any, name: str) -> Encoded:
        """A value as numbers and integers. Raises TypeError with the place at which the value is of another type."""

    @abstractmethod
    def decoded(self, numbers: Sequence[Any], integers: Sequence[int | None], mask: int = -1) -> Any:
        """The value of these numbers and integers; None in place of an integer is one that is zero.

        `mask`: 2^W − 1, for uints. Raises ValueError if there is no value.
        """

    @abstractmethod
    def form_of(self, integers: Sequence[int]) -> Form:
        """The form of a value with these integers. Raises ValueError if there is none."""

    def type_for(self, value: Any, name: str) -> FormType:
        """The type of arguments of this form. Raises TypeError."""
        found = self.encoded(value, name)
        return self.sized(len(found.numbers), len(found.integers), found.form)

    def sized(self, numbers: int, integers: int, form: Form | None = None) -> FormType:
        """The type of values with this many numbers and integers."""
        fields = ("numbers", ArrayType(FIXED, (numbers,))), ("integers", ArrayType(INT, (integers,)))
        return FormType(object, fields, self, form)


@dataclass(frozen=True)
class Unfilled:
    """The place of a result before a run: zeros, for this many numbers and integers."""

    numbers: int
    integers: int


@dataclass(frozen=True)
class FormType(StructType):
    """A list or a value of a data class: an array of its numbers, then one of its integers. `form` is None for a result, which is open."""

    structure: Structure
    form: Form | None

    @property
    def count(self) -> int:
        """How many numbers the value has."""
        return self.fields[0][1].size

    def filled(self, words: Sequence[int]) -> FormType:
        """The type of the value that these words hold: a result with its form. Raises ValueError if they hold none."""
        return replace(self, form=self.structure.form_of([int(x) for x in words[self.count :]]))

    def __str__(self) -> str:
        return str(self.structure)


# -----------------------------------------------------------------------------
# Conditions as the user wrote them, for the messages of tests that fail when the program runs.


class Condition(NamedTuple):
    """The text of a condition and its place. `sides`: of a comparison, the texts of the two operands of its test.

    A side is None where the condition is no comparison, or where the operand is a literal. `negated`: the test is the opposite of the
    condition, as in `from p … until q`.
    """

    text: str
    span: Span
    sides: tuple[str | None, str | None] = (None, None)
    negated: bool = False

    def values(self, a: Operand, b: Operand) -> str:
        """`: x is {a}, y is {b}` for the operands of the test, without constants."""
        known = [
            f"`{side}` is {blank}"
            for side, operand, blank in ((self.sides[0], a, "{a}"), (self.sides[1], b, "{b}"))
            if side is not None and not isinstance(operand, Const)
        ]
        return f": {', '.join(known)}" if known else ""


# -----------------------------------------------------------------------------
# Branches and loops on conditions with computed operands: the operands are kept, in place of a bit that holds the condition.
#
# With P, Q the statements that compute the operands of p, q:
#
#     if p, q: A else B     →   P;  if p, q: (P⁻¹; A; Q) else (P⁻¹; B; Q);  Q⁻¹
#     while p, q: A         →   P; Q;  while p, q: (Q⁻¹; P⁻¹; A; P; Q);  Q⁻¹; P⁻¹
#     if p and q: A         →   P;  if p: (Q;  if q: A;  Q⁻¹);  P⁻¹                  A changes no operand
#
# A bit would be set, cleared and tested in addition. But Q⁻¹, and P⁻¹ in a loop, begin where ways meet, so a processor evaluates their operands
# once more; after `b ^= p` it has them at hand. So a bit holds conditions with products, roots or other functions in them, and conditions
# joined by `or`, or by `and` in other places.
# Correct because only the branch lies between P and P⁻¹. Traps: a branch traps where a bit would not have been zero.
# Cost: P⁻¹ and Q stand in both branches, and the operands of a loop keep their registers during its passes.


class Operands(NamedTuple):
    """The variables that hold the operands of conditions, and the statements that compute them from zeros."""

    born: Block
    compute: Block

    @staticmethod
    def of(t: Temporaries) -> Operands:
        born = tuple(node for node in t.compute if isinstance(node, Local))
        return Operands(born, tuple(node for node in t.compute if not isinstance(node, Local)))

    @property
    def clear(self) -> Block:
        return invert(self.compute)

    @property
    def freed(self) -> Block:
        return invert(self.born)


#: functions that cost about as much as a test of a bit
_CHEAP = frozenset({"abs", "fabs", "max", "min", "seq", "slt", "sltu"})


def has_cheap_operands(condition: E) -> bool:
    """Whether a condition is a test of variables, sums, sizes and the like.

    A test of an array's element is not cheap: the tests and the branches of a statement share the computed address only outside of branches.
    """
    return all(
        node.param in _CHEAP if node.op == "apply" else node.op in ("const", "read", "add", "sub", "neg", "not")
        for node in walk(condition)
    )


def joined_by_and(condition: E) -> tuple[E, ...]:
    """The conditions c₁, c₂, … of c₁ and c₂ and …, in their order; the condition itself if it is not such a one."""
    match condition.op:
        case "choose":
            first, then, orelse = condition.args
            if orelse.op == "const" and not orelse.param:
                return (*joined_by_and(first), *joined_by_and(then))
            if then.op == "const" and not then.param:
                return (*joined_by_and(negated(first)), *joined_by_and(orelse))
        case "apply" if condition.param == "and":
            return tuple(part for x in condition.args for part in joined_by_and(x))
        case "not":
            inner = condition.args[0]
            if inner.op == "apply" and inner.param == "or":
                return tuple(part for x in inner.args for part in joined_by_and(negated(x)))
            if inner.op == "choose" and inner.args[1].op == "const" and inner.args[1].param:
                return (*joined_by_and(negated(inner.args[0])), *joined_by_and(negated(inner.args[2])))
    return (condition,)


def branch_on_all(
    conditions: tuple[E, ...], then: Block, t: Temporaries, span: Span | None, checked: Callable[[E], bool]
) -> Block:
    """`if conditions[0] and conditions[1] and …: then`, where `then` changes no operand. `checked`: see `Temporaries.wrap`."""
    first, *others = conditions
    test = t.test(first)
    body = branch_on_all(tuple(others), then, t.inner(), span, checked) if others else then
    return t.wrap((If(test, body, (), test, span),), checked(first))


def branch_on(
    before: tuple[Temporaries, Test], then: Block, orelse: Block, after: tuple[Temporaries, Test], span: Span | None
) -> Block:
    """`if before, after: then else orelse`, for a test before the branch and a test after it, with their temporaries."""
    (t_before, test), (t_after, post) = before, after
    p, q = Operands.of(t_before), Operands.of(t_after)
    then, orelse = ((*p.clear, *block, *q.compute) for block in (then, orelse))
    return (*p.born, *q.born, *p.compute, If(test, then, orelse, post, span), *q.clear, *q.freed, *p.freed)
