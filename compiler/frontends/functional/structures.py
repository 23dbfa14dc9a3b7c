"""Values while a program is lowered: an expression for each word, and the place of each array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.types import (
    BOOLEAN,
    FIXED,
    INT,
    Closure,
    Data,
    Function,
    Known,
    List,
    Nothing,
    Tuple,
    Type,
    Word,
    arrays,
    field_types,
    kinds,
)
from retrograd.compiler.ir.expressions import Address, E, choose, const
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.arithmetic import Arithmetic
from retrograd.compiler.language.values import Constant, Scalar


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


Env = dict[core.Binding, Value]


def combined(t: Type, parts: Sequence[Value]) -> Value:
    """The value of these parts."""
    return Value(t, tuple(e for p in parts for e in p.words), tuple(v for p in parts for v in p.views))


# -----------------------------------------------------------------------------
# Functions of values of any form, by recursion over their types: copies, inner products, and the types of cotangents.
#
#     cotangent of    a number: fixed     a tuple, a list: the same of cotangents     a data class: itself, with zeros for ints and bools
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
        case Tuple(items):
            return t if t == BOOLEAN else Tuple(tuple(map(cotangent, items)), t.form)
        case List(item):
            return List(cotangent(item))
        case Data() | Known() | Nothing():
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
    ) -> None:
        self._arithmetic, self._structures, self._called = arithmetic, structures, called

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
        total: E | None = None
        for i, t, other in both(x.type, d.type):
            n = len(kinds(t))
            term = self.dot(Value(t, x.words[i : i + n]), Value(other, d.words[i : i + n]), at).words[0]
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
