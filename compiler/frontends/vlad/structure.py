"""Functions of values of any structure: at each real, by recursion over pairs, lists and the values that functions have captured.

    bundle x x'    each real x becomes x ⊲ x'; the code of a function is lifted        primal, tangent: the first, the second of each
    zero x         0 at each real                                                       plus x y: the sum at each real

A real of n levels (a bundle of bundles) is one real: a new bundle lies around it. All that is no real stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.core import Place
from retrograd.compiler.frontends.functional.inference import ORDERS, Inference
from retrograd.compiler.frontends.functional.lowering.expressions import Lowering
from retrograd.compiler.frontends.functional.lowering.values import Value, combined
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
            return self._list(op, values)
        if isinstance(x.type, Known) or x.type == BOOLEAN:
            return x
        if isinstance(x.type, Tuple) and all(self._alike(x.type, t) for t in types):
            rows = [v.split(v.type.items) for v in values if isinstance(v.type, Tuple)]
            parts = [self.value(op, row) for row in zip(*rows, strict=True)]
            return combined(Tuple(tuple(p.type for p in parts), x.type.form), parts)
        if isinstance(x.type, Function) and all(isinstance(t, Function) for t in types):
            return self._function(op, x.type, values)
        if len(types) == 1:
            self._inference.fail("RG0703", f"`{op}` of {named(types[0])}", self._at)
        self._inference.fail("RG0703", f"`{op}` of {named(types[0])} and {named(types[1])}", self._at)

    def _alike(self, t: Tuple, other: Type) -> bool:
        return isinstance(other, Tuple) and t.form == other.form and len(t.items) == len(other.items)

    def _real(self, op: str, values: Sequence[Value]) -> Value:
        x = values[0]
        if op == "zero":
            return Value(x.type, tuple(const(0, Kind.FIXED) for _ in x.words))
        if op in ("primal", "tangent"):
            if depth(x.type) <= self._level or not isinstance(x.type, Tuple):
                self._inference.fail("RG0703", f"`{op}` of a real, which is no bundle", self._at)
            return x.split(x.type.items)[op == "tangent"]
        if depth(x.type) != depth(values[1].type):
            self._inference.fail("RG0703", f"`{op}` of a bundle and a real", self._at)
        if op == "bundle":
            return combined(Tuple((x.type, values[1].type), "bundle"), values)
        a = self._inference.arithmetic
        sums = zip(x.words, values[1].words, strict=True)
        return Value(x.type, tuple(a.expression(a.binary("+", Scalar(i), Scalar(j))) for i, j in sums))

    def _list(self, op: str, values: Sequence[Value]) -> Value:
        name = f"{op}-list"
        if self._lowering is None:
            return _placeholder(type_of_call(self._inference, name, [v.type for v in values]))
        return call(self._lowering, name, values, self._at)

    def _function(self, op: str, t: Function, values: Sequence[Value]) -> Value:
        codes = [[c.code for c in v.type.alternatives] for v in values if isinstance(v.type, Function)]
        if any(other != codes[0] for other in codes):
            self._inference.fail("RG0703", f"`{op}` of two functions that differ", self._at)
        rows = [v.captured() for v in values]
        made: list[Closure] = []
        parts: list[Value] = []
        for k, code in enumerate(codes[0]):
            inside = [self.value(op, row) for row in zip(*(r[k] for r in rows), strict=True)]
            made.append(Closure(self._code(op, code), tuple(p.type for p in inside)))
            parts += inside
        tag = values[0].words[:1] if len(made) > 1 else ()
        whole = combined(Function(tuple(made)), parts)
        return Value(whole.type, (*tag, *whole.words), whole.views)

    def _code(self, op: str, code: core.Lambda) -> core.Lambda:
        if op == "bundle":
            if level_of(code) == _MOST_LEVELS:
                self._inference.fail("RG0719", f"`{code.name}` is lifted without end", self._at, ORDERS)
            return lifted(code)
        if op not in ("primal", "tangent"):
            return code
        found = original(code)
        if found is None:
            self._inference.fail("RG0703", f"`{op}` of a function that is no bundle", self._at)
        return found


def _placeholder(t: Type) -> Value:
    return Value(t, tuple(read(Var("x", kind)) for kind in kinds(t)))
