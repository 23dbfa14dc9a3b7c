"""The types of the language, and the annotations that name them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from keyword import iskeyword
from math import ceil, log2, prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard, TypeVar

import numpy as np
from retrograd.compiler.ir.expressions import E, Length, Ranges, RunLength, apply, const, loads, sub
from retrograd.compiler.ir.statements import Kind, Var
from retrograd.isa.diagnostics import CompileError, Diagnostic, statement_of
from retrograd.isa.program import ArrayLayout
from retrograd.isa.words import Format, brief

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

    element: ScalarType | StructType | StackType
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
        for own, t in self.fields:
            if own == name:
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
    """A field of a struct in messages: `z.re`; an item of a tuple: `xs[0]`; of a dictionary: `d[(1, 2)]`."""
    if t.is_tuple:
        return f"{name}[{field.removeprefix('item')}]"
    key = next((key for key, own in keys_of(t.cls).items() if own == field), field)
    return f"{name}.{field}" if key == field else f"{name}[{key!r}]"


def names_of_keys(keys: Iterable[Hashable]) -> dict[Hashable, str]:
    """The field of each key of a dictionary: the key itself where it is a name of Python, else one that no key has."""
    given = list(keys)
    own = {k for k in given if isinstance(k, str) and k.isidentifier() and not iskeyword(k)}
    out: dict[Hashable, str] = {}
    for i, key in enumerate(given):
        name = key if isinstance(key, str) and key in own else f"key{i}"
        while name != key and name in own:
            name += "_"
        out[key] = name
    return out


#: methods of dictionaries through which a loop goes
OF_DICTS = ("items", "keys", "values")


def keys_of(cls: type) -> Mapping[Hashable, str]:
    """Key → field of the struct that a dictionary is; empty for any other class."""
    found: Mapping[Hashable, str] = vars(cls).get("__retrograd_keys__", _NO_KEYS)
    return found


def shown_fields(t: StructType) -> str:
    """The fields of a struct, or the keys of a dictionary, in messages."""
    keys = {field: key for key, field in keys_of(t.cls).items()}
    return ", ".join(name if keys.get(name, name) == name else f"{keys[name]!r:.20}" for name, _ in t.fields)


def field_of_index(t: StructType, index: tuple[int, ...]) -> str | None:
    """The field of a dictionary that an index in a part's name leads to, `d[3]` or `d[1, 2]`; None for another struct."""
    keys = keys_of(t.cls)
    return keys.get(index, keys.get(index[0]) if len(index) == 1 else None)


_NO_KEYS: Mapping[Hashable, str] = MappingProxyType({})


def tuple_of(types: Sequence[Type]) -> StructType:
    """The type of a tuple of values of these types."""
    return StructType(tuple, tuple((item_name(i), t) for i, t in enumerate(types)))


@dataclass(frozen=True)
class StackType:
    """A count, and room for `capacity` numbers, structs or stacks, whose words are zero from the count on."""

    element: ScalarType | StructType | StackType
    capacity: int

    @property
    def size(self) -> int:
        return 1 + self.capacity * self.element.size

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
        """`Stack[fixed, 100]`: a stack of up to 100 numbers or structs of numbers, for `push` and `pop`."""

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


def element_of(annotation: Any) -> ScalarType | StructType | StackType | None:
    """The scalar, struct or stack that an annotation names, or None."""
    if isinstance(annotation, StackAnnotation):
        inner = element_of_stack(annotation.element)
        return None if inner is None else StackType(inner, annotation.capacity)
    return scalar_of(annotation) or struct_of(annotation)


def element_of_stack(annotation: Any) -> ScalarType | StructType | StackType | None:
    """The scalar, struct or stack that an annotation names, or None: a stack holds no struct with a stack in it."""
    found = element_of(annotation)
    nested = isinstance(found, StructType) and any(isinstance(leaf, StackType) for _, _, leaf in leaves(found, ""))
    return None if nested else found


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
        element = element_of_stack(annotation.element)
        if element is None:
            raise TypeError(f"a stack cannot hold {annotation.element!r}")
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
            axis = len(shape)
            for leaf in layouts(element, name, offset + 1, (*shape, capacity), (*strides, element.size)):
                yield leaf._replace(counts=(*(0,) * axis, leaf.offset - offset, *leaf.counts[axis + 1 :]))
        case StaticType():
            return


def is_real(t: Type) -> bool:
    """Whether a value of this type holds a number that has a derivative: fixed or lognum."""
    match t:
        case ScalarType(kind):
            return kind.is_real
        case ArrayType(element):
            return is_real(element)
        case StructType(_, fields):
            return any(is_real(inner) for _, inner in fields)
    return False


def has_points(t: Type) -> bool:
    """Whether a value of this type holds a fixed number with a binary point of its own."""
    match t:
        case ScalarType(kind):
            return kind.is_fixed and kind is not Kind.FIXED
        case ArrayType(element) | StackType(element):
            return has_points(element)
        case StructType(_, fields):
            return any(has_points(inner) for _, inner in fields)
    return False


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def takes(wanted: Type | None, given: Type) -> bool:
    """Whether a parameter of a type takes a value of another as it is: `fixed` takes fixed numbers of any binary point."""
    return given == wanted or (wanted == FIXED and isinstance(given, ScalarType) and given.kind.is_fixed)


def of_any_point(annotation: Any) -> Any:
    """The annotation with `fixed`, which takes numbers of any binary point, in place of `fixed[p]`."""
    if isinstance(annotation, ArrayAnnotation):
        return replace(annotation, element=of_any_point(annotation.element))
    scalar = scalar_of(annotation)
    return float if scalar is not None and has_points(scalar) else annotation


def mismatch(
    wanted: ArrayAnnotation, element: ScalarType | StructType | StackType, shape: Sequence[L], sizes: dict[str, L]
) -> str | None:
    """Why an array of this shape does not have the annotated type, or None. `sizes`: the lengths of named dimensions so far."""
    matches = isinstance(element, StructType) and is_open(wanted.element) and element.cls is wanted.element
    if not matches and not takes(element_of(wanted.element), element):
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


# -----------------------------------------------------------------------------
# Lengths of axes: integers, or the values of expressions where they are known only when the program runs.

#: elements along an axis whose length is known only when the program runs
LARGEST = 1 << 24


def is_known(lengths: Sequence[Length]) -> TypeGuard[Sequence[int]]:
    """Whether all lengths are known when the program is compiled."""
    return all(isinstance(n, int) for n in lengths)


def known(lengths: Sequence[Length]) -> tuple[int, ...]:
    """The shape of an array that a caller has found to be known."""
    assert is_known(lengths)
    return tuple(lengths)


def bound(length: Length) -> int:
    """A number that the length does not exceed."""
    return length if isinstance(length, int) else length.most


def value_of(length: Length) -> E:
    """The length as an expression."""
    return const(length, Kind.INT) if isinstance(length, int) else length.e


def is_empty(lengths: Sequence[Length]) -> bool:
    """Whether an array of this shape certainly has no element."""
    return prod(map(bound, lengths)) == 0


def merged(lengths: Sequence[Length]) -> Length:
    """Equal lengths as one, with the checks of all."""
    first, *_ = lengths
    if isinstance(first, int):
        return first
    found = [n for n in lengths if isinstance(n, RunLength)]
    checks = tuple(dict.fromkeys(c for n in found for c in n.checks))
    return replace(first, most=min(n.most for n in found), checks=checks)


def note_range(ranges: Ranges, var: Var, length: Length, w: Format) -> None:
    """Record that an index goes through an axis."""
    ranges[var] = (0, max(0, bound(length) - 1))
    if isinstance(length, RunLength) and not loads(length.e):
        ranges.between[var] = (const(0, Kind.INT), sub(length.e, const(1, Kind.INT), w))


def words_of(lengths: Sequence[Length]) -> Length:
    """The product of lengths of which one at most is known only when the program runs."""
    factor = prod(n for n in lengths if isinstance(n, int))
    run = next((n for n in lengths if isinstance(n, RunLength)), None)
    if run is None or factor == 1:
        return factor if run is None else run
    return replace(run, e=apply("mul", Kind.INT, run.e, const(factor, Kind.INT)), most=run.most * factor)


def operands(lengths: Sequence[Length]) -> tuple[E, ...]:
    """The expressions on which the lengths and their checks depend."""
    return tuple(e for n in lengths if isinstance(n, RunLength) for e in (n.e, *(c.value for c in n.checks)))


def sum_over(body: E, indices: Sequence[Var], shape: Sequence[Length]) -> E:
    """Σ body over all indices."""
    return E("total", body.kind, (body, *operands(shape)), (tuple(indices), tuple(shape)))


# -----------------------------------------------------------------------------
# Limits of constants: a constant that would take memory or time without bound is refused before it is computed.
#
# Operators and functions of constants are evaluated while a function is compiled. Here the size of the result is bounded
# from the operands alone: at most `BITS` bits in an integer, `MOST` items in anything else.

#: bits that integers may have on the way to a word
BITS = 4096
#: items, or characters, of a result of constants
MOST = 1 << 24


class TooLarge(OverflowError):
    """A constant that would take too much memory."""


# ---------------------------------------------------------------------- operators


def check_operator(op: str, x: Any, y: Any) -> None:
    """Raises TooLarge where the result of `x op y` may be too large."""
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        _check_arrays(op, x, y)
        return
    if op == "+" and hasattr(type(x), "__len__") and hasattr(type(y), "__len__"):
        _check_items(len(x) + len(y), f"the sum of {len(x)} and {len(y)} items")
    elif op == "*":
        for items, count in ((x, y), (y, x)):
            if isinstance(items, str | bytes | tuple | list) and isinstance(count, int):
                _check_items(len(items) * max(0, count), f"{len(items)} items times {brief(count)}")
    if not isinstance(y, int):
        return
    if op == "<<" and isinstance(x, int) and x:
        _check_bits(x.bit_length() + max(0, y), f"{brief(x)} << {brief(y)}")
    elif op == "**" and isinstance(x, int | Fraction):
        bits = max(abs(n) for n in (x.numerator, x.denominator)).bit_length()
        if bits > 1 and not (isinstance(x, int) and y < 0):
            _check_bits((bits - 1) * abs(y), f"{brief(x)} ** {brief(y)}")
    elif op == "*" and isinstance(x, int):
        _check_bits(x.bit_length() + y.bit_length() - 1, f"the product of {brief(x)} and {brief(y)}")


def check_result(value: Any) -> None:
    """Raises TooLarge for an integer that is too large to be computed with further."""
    if isinstance(value, int):
        _check_bits(value.bit_length(), "the constant")


def check_size(shape: tuple[Any, ...]) -> None:
    """Raises TooLarge for an array of too many items."""
    _check_items(prod(shape), f"an array of the shape {shape}")


def _check_arrays(op: str, x: Any, y: Any) -> None:
    if any(isinstance(v, np.ndarray) and v.dtype.kind == "O" for v in (x, y)):
        raise TypeError(f"{op} is not defined for an array of objects")
    try:
        shape = np.broadcast_shapes(np.shape(x), np.shape(y))
    except ValueError:
        return  # the operator raises its own error
    check_size(shape)


# ---------------------------------------------------------------------- calls


def check_call(callee: Callable[..., Any], args: Sequence[Any]) -> None:
    """Raises TooLarge where the result of a call may be too large, or may take too long."""
    name = getattr(callee, "__name__", "")
    if callee not in (range, reversed, enumerate, zip, len, isinstance, bool):
        for a in args:
            if isinstance(a, range):
                # A range takes no memory itself.
                _check_items(_length(a), f"a range of {brief(_length(a))} numbers")
    receiver = getattr(callee, "__self__", None)
    estimate: Callable[..., int] | None = None
    if isinstance(receiver, str | bytes):
        estimate = lambda *a: _of_text(receiver, name, a)  # noqa: E731
    elif isinstance(receiver, np.ndarray):
        estimate = _ARRAYS.get(name)
        args = (receiver, *args)
    elif isinstance(receiver, int):
        estimate = lambda *a: max((v for v in a if isinstance(v, int)), default=0)  # noqa: E731
    elif callee is pow and len(args) == 2:
        check_operator("**", *args)
    elif callee in (bytes, bytearray):
        estimate = lambda n=0, *_: n if isinstance(n, int) else 0  # noqa: E731
    elif getattr(callee, "__module__", None) == "math":
        bits = _MATH.get(name)
        if bits is not None and all(isinstance(a, int) for a in args):
            _check_bits(bits(*args), f"{name}({', '.join(map(brief, args))})")
    elif (getattr(callee, "__module__", None) or "").partition(".")[0] == "numpy":
        estimate = _ARRAYS.get(name)
    if estimate is not None:
        try:
            items = ceil(estimate(*args))
        except (TypeError, ValueError, ZeroDivisionError, IndexError, OverflowError):
            return  # the function raises its own error
        _check_items(items, f"`{name}` of {brief(items)} items")


def _of_text(text: str | bytes, name: str, args: Sequence[Any]) -> int:
    """An upper bound of the length of the result of a method of a text."""
    match name:
        case "ljust" | "rjust" | "center" | "zfill":
            return int(args[0])
        case "expandtabs":
            return len(text) * int(args[0] if args else 8)
        case "replace":
            return (len(text) + 1) * max(1, len(args[1]))
        case "join":
            return (len(text) + 1) * sum(len(x) for x in args[0])
        case "format" | "format_map":
            assert isinstance(text, str)
            # A width in a format is a number in the text, or an argument.
            digits = "".join(c if c.isdigit() else " " for c in text).split()
            widths = [int(d[:9]) for d in digits] + [a for a in args if isinstance(a, int)]
            return max(widths, default=0) * (text.count("{") + 1)
    return 0


def _size(x: Any) -> int:
    """Numbers in an array, or in a sequence of arrays."""
    if isinstance(x, tuple | list):
        return sum(map(_size, x))
    return int(np.size(x))


def _shape(x: Any) -> int:
    """The product of a shape, which may be one length."""
    return prod(abs(int(n)) for n in x) if isinstance(x, tuple | list | np.ndarray) else abs(int(x))


def _range_size(start: Any, stop: Any = None, step: Any = 1) -> int:
    first, last = (0, start) if stop is None else (start, stop)
    count: int = ceil((last - first) / step)
    return max(0, count)


def _outer(x: Any, y: Any) -> int:
    return _size(x) * _size(y)


def _together(*args: Any) -> int:
    return sum(map(_size, args))


#: bits of the result of functions of `math` that give long integers
_MATH: dict[str, Callable[..., float]] = {
    "factorial": lambda n: n * log2(max(2, n)),
    "comb": lambda n, k: min(k, max(0, n - k)) * log2(max(2, n)),
    "perm": lambda n, k=None: (n if k is None else k) * log2(max(2, n)),
}
#: items in the results of NumPy's functions
_ARRAYS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("zeros", "ones", "empty", "full"), lambda shape, *_: _shape(shape)),
    "indices": lambda shape, *_: len(shape) * _shape(shape),
    "identity": lambda n, *_: n * n,
    **dict.fromkeys(("eye", "tri"), lambda n, m=None, *_: n * (n if m is None else m)),
    "arange": _range_size,
    **dict.fromkeys(("linspace", "logspace", "geomspace"), lambda a, b, n=50, *_: _size(a) * n),
    **dict.fromkeys(("bartlett", "blackman", "hamming", "hanning", "kaiser", "fftfreq", "rfftfreq"), lambda n, *_: n),
    **dict.fromkeys(("repeat", "tile"), lambda x, n, *_: _size(x) * max(1, _shape(n) if np.ndim(n) else int(n))),
    **dict.fromkeys(("resize", "broadcast_to", "reshape"), lambda x, shape, *_: _shape(shape)),
    **dict.fromkeys(("outer", "kron", "tensordot", "convolve", "correlate"), lambda x, y, *_: _outer(x, y)),
    "meshgrid": lambda *xs: len(xs) * prod(map(_size, xs)),
    "vander": lambda x, n=None, *_: _size(x) * (_size(x) if n is None else n),
    **dict.fromkeys(("diag", "diagflat"), lambda x, k=0: (_size(x) + abs(k)) ** 2 if np.ndim(x) == 1 else 0),
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft"), lambda x, n=None, *_: _size(x) if n is None else n),
    "bincount": lambda x, *_: int(np.max(x)) + 1 if _size(x) else 0,
    "histogram": lambda x, bins=10, *_: bins if isinstance(bins, int) else 0,
    "pad": lambda x, width, *_: prod(n + 2 * int(np.max(width)) for n in np.shape(x)),
    **dict.fromkeys(("append", "concatenate", "stack", "hstack", "vstack", "column_stack", "insert"), _together),
}  # fmt: skip


# ---------------------------------------------------------------------- limits


def _length(x: range) -> int:
    """The length of a range, which may be longer than `len` can give."""
    return max(0, (x.stop - x.start + x.step - (1 if x.step > 0 else -1)) // x.step)


def _check_items(count: int, what: str) -> None:
    if count > MOST:
        raise TooLarge(f"{what} would take {brief(count)} items, and a constant has {MOST} at most")


def _check_bits(count: float, what: str) -> None:
    if count > BITS:
        raise TooLarge(f"{what} would take more than {BITS} bits")


# -----------------------------------------------------------------------------
# Shapes of arguments: a procedure is specialised on the shape of each argument.


@dataclass(frozen=True)
class ScalarShape:
    kind: Kind


@dataclass(frozen=True)
class PassedLength:
    """A length that is known only when the program runs. Equal lengths of one call have one number, and one parameter, beside the first array that has it.

    `most`: it is not greater.
    """

    number: int
    most: int
    first: bool


@dataclass(frozen=True)
class ArrayShape:
    element: ScalarType | StructType | StackType
    shape: tuple[int | PassedLength, ...]
    strides: tuple[int, ...]

    @property
    def lengths(self) -> tuple[int, ...] | None:
        """The shape where it is known when the program is compiled."""
        known = tuple(n for n in self.shape if isinstance(n, int))
        return known if len(known) == len(self.shape) else None

    @property
    def passed(self) -> list[PassedLength]:
        """The lengths that have a parameter of their own beside this array."""
        return [n for n in self.shape if isinstance(n, PassedLength) and n.first]


@dataclass(frozen=True)
class StackShape:
    type: StackType


@dataclass(frozen=True)
class StructShape:
    type: StructType
    fields: tuple[tuple[str, Shape], ...]


@dataclass(frozen=True)
class StaticShape:
    """A value known now. Functions and arrays count by identity, other values by themselves and their type."""

    key: Any
    value: Any = field(compare=False)


@dataclass(frozen=True)
class ClosureShape:
    """An inner function with the variables around it that it uses. Functions count by identity."""

    key: Any
    captured: tuple[tuple[str, Shape], ...]
    value: Any = field(compare=False)


Shape = ScalarShape | ArrayShape | StackShape | StructShape | StaticShape | ClosureShape


def leaf_shapes(shape: Shape) -> list[Shape]:
    """The shapes of the scalars, arrays, stacks and passed lengths in it, one for each parameter of the procedure."""
    match shape:
        case StructShape(_, fields):
            return [leaf for _, inner in fields for leaf in leaf_shapes(inner)]
        case ClosureShape(_, captured):
            return [leaf for _, inner in captured for leaf in leaf_shapes(inner)]
        case StaticShape():
            return []
        case ArrayShape():
            return [shape, *(ScalarShape(Kind.INT) for _ in shape.passed)]
    return [shape]


def has_passed_length(shape: Shape) -> bool:
    """Whether the length of an array in it is known only when the program runs."""
    return any(isinstance(n, PassedLength) for x in leaf_shapes(shape) if isinstance(x, ArrayShape) for n in x.shape)
