"""Functions of values of any structure: at each real, by recursion over pairs and lists, and pointwise for functions.

    bundle x x'    each real x becomes x ⊲ x'        primal, tangent: the first, the second of each
    zero x         0 at each real                    plus x y: the sum at each real

    (zero f) y = zero (f y)      (plus f g) y = (f y) + (g y)      (tangent f) y = tangent of f (j* y)
    (bundle f f') (y ⊲ y') = f y ⊲ (f' y + J f(y)·y')              so (j* f), which is bundle f (zero f), is the lifted code of f

A tangent of a function needs the values that the function has captured, and not their tangents alone: that of λy. x·x·y by x is λy. 2·x·y.
Lifted code of level n has n derivatives around it, whose bundles are the outermost n of each real. A new bundle lies inside these, and around
the bundles of the program. All that is no real stays as it is.
Source: O. Manzyuk et al., Perturbation confusion in forward automatic differentiation of higher-order functions, JFP 2019.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.core import Place
from retrograd.compiler.frontends.functional.inference import ORDERS, Inference
from retrograd.compiler.frontends.functional.program import Lowering
from retrograd.compiler.frontends.functional.structures import Value, combined
from retrograd.compiler.frontends.functional.types import (
    BOOLEAN,
    FIXED,
    NOTHING,
    Closure,
    Function,
    Key,
    Known,
    List,
    Tuple,
    Type,
    kinds,
    named,
)
from retrograd.compiler.frontends.vlad.lifting import level_of, lifted, original
from retrograd.compiler.ir.expressions import const, read
from retrograd.compiler.ir.statements import Kind, Var
from retrograd.compiler.language.values import Scalar

#: the most levels of the code of a function; a real of this level has 2¹⁴ words
_MOST_LEVELS = 14


def depth(t: Type) -> int:
    """The levels of a real."""
    n = 0
    while isinstance(t, Tuple) and t.form == "bundle":
        t = t.items[0]
        n += 1
    return n


def is_real(t: Type) -> bool:
    """Whether a type is that of reals, of any level."""
    return t == FIXED or (isinstance(t, Tuple) and t.form == "bundle")


#: the definitions of the prelude, by name
LIBRARY: dict[str, Any] = {}


def _key(inference: Inference, name: str, types: Sequence[Type], level: int) -> Key:
    argument = types[0] if len(types) == 1 else Tuple(tuple(types), "pair")
    code = inference.definition(LIBRARY[name])
    for _ in range(level):
        code = lifted(code)
    return code, (), (argument,)


def type_of_call(inference: Inference, name: str, types: Sequence[Type], level: int = 0) -> Type:
    """The type of a function of the prelude, lifted to a level."""
    return inference.result(_key(inference, name, types, level))


def call(lowering: Lowering, name: str, values: Sequence[Value], at: Place, level: int = 0) -> Value:
    """The value of a function of the prelude, lifted to a level."""
    key = _key(lowering.inference, name, [v.type for v in values], level)
    argument = values[0] if len(values) == 1 else combined(key[2][0], values)
    return lowering.calls.call(Closure(key[0]), (), [argument], at)


class Structure:
    """The functions at one place. Without a lowering, the words of values are placeholders, and only types are found."""

    def __init__(self, inference: Inference, at: Place, level: int, lowering: Lowering | None = None) -> None:
        self._inference, self._at, self._level, self._lowering = inference, at, level, lowering

    def type(self, op: str, types: Sequence[Type]) -> Type:
        """The type of the result."""
        return self.value(op, [_placeholder(t) for t in types]).type

    def value(self, op: str, values: Sequence[Value]) -> Value:
        """The result. Raises CompileError."""
        x = values[0]
        types = [v.type for v in values]
        if NOTHING in types:
            return Value(NOTHING)
        if all(map(is_real, types)):
            return self._real(op, values)
        if any(isinstance(t, List) for t in types):
            return self._called(f"{op}-list", values)
        if all(t == BOOLEAN or isinstance(t, Known) for t in types):
            return x
        if isinstance(x.type, Tuple) and all(self._alike(x.type, t) for t in types):
            rows = [v.split(v.type.items) for v in values if isinstance(v.type, Tuple)]
            parts = [self.value(op, row) for row in zip(*rows, strict=True)]
            return combined(Tuple(tuple(p.type for p in parts), x.type.form), parts)
        if isinstance(x.type, Function) and all(isinstance(t, Function) for t in types):
            return self._function(op, values)
        if len(types) == 1:
            self._inference.fail("RG0703", f"`{op}` of {named(types[0])}", self._at)
        self._inference.fail("RG0703", f"`{op}` of {named(types[0])} and {named(types[1])}", self._at)

    def _alike(self, t: Tuple, other: Type) -> bool:
        return isinstance(other, Tuple) and t.form == other.form and len(t.items) == len(other.items)

    def _real(self, op: str, values: Sequence[Value], outside: int | None = None) -> Value:
        """The function of reals, of which `outside` bundles belong to derivatives around the code: at first those of all levels."""
        x = values[0]
        outside = self._level if outside is None else outside
        if op == "zero":
            return Value(x.type, tuple(const(0, Kind.FIXED) for _ in x.words))
        if op in ("primal", "tangent") and depth(x.type) <= outside:
            self._inference.fail("RG0703", f"`{op}` of a real, which is no bundle", self._at)
        if len(values) > 1 and depth(x.type) != depth(values[1].type):
            self._inference.fail("RG0703", f"`{op}` of a bundle and a real", self._at)
        if op == "plus":
            a = self._inference.arithmetic
            sums = zip(x.words, values[1].words, strict=True)
            return Value(x.type, tuple(a.expression(a.binary("+", Scalar(i), Scalar(j))) for i, j in sums))
        if outside and isinstance(x.type, Tuple):
            rows = [v.split(v.type.items) for v in values if isinstance(v.type, Tuple)]
            parts = [self._real(op, row, outside - 1) for row in zip(*rows, strict=True)]
            return combined(Tuple(tuple(p.type for p in parts), "bundle"), parts)
        if op == "bundle":
            return combined(Tuple((x.type, values[1].type), "bundle"), values)
        assert isinstance(x.type, Tuple)
        return x.split(x.type.items)[op == "tangent"]

    def _called(self, name: str, values: Sequence[Value]) -> Value:
        """The value of a function of the prelude, as code of this level."""
        if self._lowering is None:
            return _placeholder(type_of_call(self._inference, name, [v.type for v in values], self._level))
        return call(self._lowering, name, values, self._at, self._level)

    def _function(self, op: str, values: Sequence[Value]) -> Value:
        """The function of functions, pointwise. A bundle whose tangent is zero is lifted code, and so is its primal."""
        f = values[0]
        if op == "zero":
            return self._called("zero-function", values)
        if op == "plus":
            zeros = [_is(v, "zero-function") for v in values]
            return values[zeros.index(True) - 1] if any(zeros) else self._called("plus-functions", values)
        if op == "bundle":
            if not _is(values[1], "zero-function"):
                return self._called("bundle-functions", values)
            return self._of_code(f, self._lifted, lambda c: self.value("bundle", [c, self.value("zero", [c])]))
        assert isinstance(f.type, Function)
        for closure in f.type.alternatives:
            if _levels(closure.code) <= self._level:
                message = f"`{op}` of a function that is no bundle"
                self._inference.fail("RG0703", message, self._at, "(j* f) is the bundle of f and its zero.")
        if any(level_of(c.code) == self._level for c in f.type.alternatives):
            # Made by bundle-functions in code of this level: it has captured the function and its tangent.
            if len(f.type.alternatives) == 1:
                return f.captured()[0][op == "tangent"]
            return self._called(f"{op}-function", values)
        if op == "tangent":
            return self._called("tangent-function", values)
        return self._of_code(f, self._original, lambda c: self.value("primal", [c]))

    def _of_code(
        self, f: Value, code: Callable[[core.Lambda], core.Lambda], captured: Callable[[Value], Value]
    ) -> Value:
        """A function with other code, and other values that it has captured."""
        assert isinstance(f.type, Function)
        made: list[Closure] = []
        parts: list[Value] = []
        for closure, row in zip(f.type.alternatives, f.captured(), strict=True):
            inside = [captured(c) for c in row]
            made.append(Closure(code(closure.code), tuple(p.type for p in inside)))
            parts += inside
        whole = combined(Function(tuple(made)), parts)
        tag = f.words[:1] if len(made) > 1 else ()
        return Value(whole.type, (*tag, *whole.words), whole.views)

    def _lifted(self, code: core.Lambda) -> core.Lambda:
        if level_of(code) == _MOST_LEVELS:
            self._inference.fail("RG0719", f"`{code.name}` is lifted without end", self._at, ORDERS)
        return lifted(code)

    def _original(self, code: core.Lambda) -> core.Lambda:
        found = original(code)
        assert found is not None
        return found


def _root(code: core.Lambda) -> core.Lambda:
    """The function that was lifted, once or more."""
    below = original(code)
    return code if below is None else _root(below)


def _made_by(name: str) -> core.Core:
    """The function that a function of the prelude gives."""
    found: core.Core = LIBRARY[name].functional_core(None).body
    while isinstance(found, core.Let):
        found = found.body
    return found


def _is(f: Value, name: str) -> bool:
    """Whether a function is made by a function of the prelude."""
    return isinstance(f.type, Function) and all(_root(c.code) is _made_by(name) for c in f.type.alternatives)


def _levels(code: core.Lambda) -> int:
    """The bundles in the reals that a function takes and gives."""
    return level_of(code) + (_root(code) is _made_by("bundle-functions"))


def _placeholder(t: Type) -> Value:
    return Value(t, tuple(read(Var("x", kind)) for kind in kinds(t)))
