"""Forward mode: a function on bundles, from a function on reals.

    lifted(f)(x ⊲ x') = f(x) ⊲ J f(x)·x'        J* of Pearlmutter and Siskind

A bundle of pairs is a pair of bundles, and that of a function is its lifted code with bundles of the values that it has captured. So only
reals change: a number c in lifted code is c ⊲ 0, and the primitives of reals choose their rule by the type of their operands. Code that is
lifted n times computes with reals of n levels, all of the same order. So a value of an outer derivative is a bundle inside all
bundles of an inner one, and perturbations cannot be confused.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.core import Core, Place, scalar_operation
from retrograd.compiler.frontends.functional.inference import ORDERS, Inference
from retrograd.compiler.frontends.functional.lowering import Lowering
from retrograd.compiler.frontends.functional.types import (
    BOOL,
    BOOLEAN,
    FIXED,
    NOTHING,
    Closure,
    Derivative,
    Exact,
    Function,
    Key,
    Known,
    List,
    Tuple,
    Type,
    Value,
    combined,
    forgotten,
    kinds,
    named,
)
from retrograd.compiler.ir.expressions import E, choose, const, neg
from retrograd.compiler.ir.statements import Check, Const, Kind, Test, Var
from retrograd.compiler.language.values import Constant as Number
from retrograd.compiler.language.values import Scalar


class LiftedGlobal:
    """A definition, lifted when it is needed."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def functional_core(self, captures: Any) -> core.Lambda:
        """The definition, lifted."""
        return lifted(self._of.functional_core(captures))


def lifted(f: core.Lambda) -> core.Lambda:
    """The function on bundles, made once. The functions of one letrec are lifted together."""
    if "lifted" not in f.versions:
        members = [g for _, g in f.group] or [f]
        for g in members:
            made = g.versions["lifted"] = replace(g, group=(), versions={"original": g})
        group = tuple((b, g.versions["lifted"]) for b, g in f.group)
        for g in members:
            made = g.versions["lifted"]
            made.body, made.group = _lifted(g.body), group
    return f.versions["lifted"]


def original(f: core.Lambda) -> core.Lambda | None:
    """The function that was lifted; None for others."""
    return f.versions.get("original")


def level_of(f: core.Lambda) -> int:
    """How many times a function was lifted."""
    n, below = 0, original(f)
    while below is not None:
        n, below = n + 1, original(below)
    return n


def _lifted(e: Core) -> Core:
    match e:
        case core.Number(_, at):
            return core.Primitive(BUNDLE, (e, core.Number(0.0, at)), at)
        case core.Ref() | core.Refusal():
            return e
        case core.Lambda():
            return lifted(e)
        case core.Global(function, at):
            if not hasattr(function, "lifted"):
                function.lifted = LiftedGlobal(function)
            return core.Global(function.lifted, at)
        case core.Apply() | core.Let() | core.Conditional() | core.Record() | core.Item() | core.Forget():
            return core.rebuilt(e, tuple(map(_lifted, core.children(e))))
        case core.LetRec(functions, body, at):
            return core.LetRec(tuple((b, lifted(f)) for b, f in functions), _lifted(body), at)
        case core.Primitive(rules, args, at):
            own = rules.lifted() if hasattr(rules, "lifted") else rules
            return core.Primitive(own, tuple(map(_lifted, args)), at)
    raise AssertionError(e)


#: bundle, the primitive of the code of level 0: it is the same at all levels
BUNDLE: Any = None


# -----------------------------------------------------------------------------
# Functions of values of any structure: at each real, by recursion over pairs and lists, and pointwise for functions.
#
#     bundle x x'    each real x becomes x ⊲ x'        primal, tangent: the first, the second of each
#     zero x         0 at each real                    plus x y: the sum at each real
#
#     (zero f) y = zero (f y)      (plus f g) y = (f y) + (g y)      (tangent f) y = tangent of f (j* y)
#     (bundle f f') (y ⊲ y') = f y ⊲ (f' y + J f(y)·y')              so (j* f), which is bundle f (zero f), is the lifted code of f
#
# A tangent of a function needs the values that the function has captured, and not their tangents alone: that of λy. x·x·y by x is λy. 2·x·y.
# Lifted code of level n has n derivatives around it, whose bundles are the outermost n of each real. A new bundle lies inside these, and around
# the bundles of the program. All that is no real stays as it is.
# Source: O. Manzyuk et al., Perturbation confusion in forward automatic differentiation of higher-order functions, JFP 2019.

#: the most levels of the code of a function; a real of this level has 2¹⁴ words
_MOST_LEVELS = 14


def depth(t: Type) -> int:
    """The levels of a real."""
    n = 0
    while isinstance(t, Tuple) and t.form == "bundle":
        t = t.items[0]
        n += 1
    return n + t.level if isinstance(t, Exact) else n


def is_real(t: Type) -> bool:
    """Whether a type is that of reals, of any level."""
    return t == FIXED or isinstance(t, Exact) or (isinstance(t, Tuple) and t.form == "bundle")


def in_words(lowering: Lowering | None, values: Sequence[Value], at: Place) -> list[Value]:
    """The values with a word for each real, known or not; without a lowering, values of their types."""
    if lowering is None:
        return [Value(forgotten(v.type)) for v in values]
    return [lowering.conversions.converted(v, forgotten(v.type), at) for v in values]


def exact_numbers(types: Sequence[Type]) -> list[int] | None:
    """The numbers, where all are known, and are bundles of one level."""
    found = [t.value for t in types if isinstance(t, Exact)]
    return found if len(found) == len(types) and len({depth(t) for t in types}) == 1 else None


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


def called(
    inference: Inference, lowering: Lowering | None, name: str, values: Sequence[Value], at: Place, level: int = 0
) -> Value:
    """`call`; without a lowering, a value of its type."""
    if lowering is None:
        return Value(type_of_call(inference, name, [v.type for v in values], level))
    return call(lowering, name, values, at, level)


class Structure:
    """The functions at one place. `lowering`: as of `OneRule`."""

    def __init__(self, inference: Inference, at: Place, level: int, lowering: Lowering | None = None) -> None:
        self._inference, self._at, self._level, self._lowering = inference, at, level, lowering

    def value(self, op: str, values: Sequence[Value]) -> Value:
        """The result. Raises CompileError."""
        if op == "bundle" and getattr(values[0].type, "form", "") != "perturbation":
            values = [values[0], _unperturbed(values[1])]
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
        if all(isinstance(v.type, Exact) for v in values):
            known = self._exact(op, [v.type for v in values if isinstance(v.type, Exact)], outside)
            if known is not None:
                return Value(known)
        values = in_words(self._lowering, values, self._at)
        x = values[0]
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

    def _exact(self, op: str, types: Sequence[Exact], outside: int) -> Type | None:
        """The type of a known number, of which the tangents are zero; None where the value is not known."""
        x = types[0]
        if op == "zero":
            return replace(x, value=0)
        if len({t.level for t in types}) > 1 or (op in ("primal", "tangent") and x.level <= outside):
            return None
        if op == "plus":
            whole = self._inference.number(x.value + types[1].value)
            return replace(x, value=whole.value) if isinstance(whole, Exact) else None
        if op == "bundle":
            return None if types[1].value else replace(x, level=x.level + 1)
        return Exact(0 if op == "tangent" else x.value, x.level - 1)

    def _called(self, name: str, values: Sequence[Value]) -> Value:
        """The value of a function of the prelude, as code of this level."""
        return called(self._inference, self._lowering, name, values, self._at, self._level)

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


# -----------------------------------------------------------------------------
# The primitives of VLAD: the type of each value, and the words of it, by the types of the arguments.
#
# A predicate of types, such as `pair?`, is known when the program is compiled, so a recursion over a list of known length ends there.
# Reals have levels (lifting.py): the primitives of reals compute with words at level 0, and by rules of the prelude with bundles.

PAIR, NIL = "pair", "nil"


class OneRule(ABC):
    """A primitive with one rule, `made`, for its value and for the type of it.

    Without a lowering, values have no words, and only types are found.
    """

    @abstractmethod
    def made(self, inference: Inference, lowering: Lowering | None, values: Sequence[Value], at: Place) -> Value:
        """The value. Raises CompileError."""

    def type(self, inference: Inference, types: Sequence[Type], at: Place) -> Type:
        return self.made(inference, None, [Value(t) for t in types], at).type

    def value(self, lowering: Lowering, values: Sequence[Value], at: Place) -> Value:
        return self.made(lowering.inference, lowering, values, at)


@dataclass(frozen=True)
class Constant(OneRule):
    """#t, #f, or a symbol."""

    of: bool | str

    def made(self, inference: Inference, lowering: Lowering | None, values: Sequence[Value], at: Place) -> Value:
        return Value(Known(self.of))


@dataclass(frozen=True)
class Truth(OneRule):
    """Whether a value is true, as a condition: all values are, except #f."""

    def made(self, inference: Inference, lowering: Lowering | None, values: Sequence[Value], at: Place) -> Value:
        t = values[0].type
        return Value(BOOL, values[0].words) if t == BOOLEAN else Value(Known(t != Known(False)))


@dataclass(frozen=True)
class Item:
    """car and cdr: of a pair, and of a list in the heap, whose cell is the item and the address of the next.

    `parameters`: of a function that takes its argument apart, its parameters; an argument with fewer parts is a wrong call.
    """

    name: str
    index: int
    parameters: str | None = None

    def type(self, inference: Inference, types: Sequence[Type], at: Place) -> Type:
        match types[0]:
            case Tuple((_, _) as items, "pair"):
                return items[self.index]
            case Tuple((), "nil"):
                return NOTHING
            case List(item):
                return types[0] if self.index else item
        hint = {"bundle": "`primal` and `tangent` are its parts.", "reverse": "`*j-inverse` gives the value."}
        found = types[0]
        form = found.form if isinstance(found, Tuple) else ""
        if self.parameters is not None:
            inference.fail("RG0715", f"{self.parameters}, and is called with fewer arguments", at, _ALL)
        inference.fail("RG0703", f"`{self.name}` of {named(found)}", at, hint.get(form))

    def value(self, lowering: Lowering, values: Sequence[Value], at: Place) -> Value:
        whole = values[0]
        t = self.type(lowering.inference, [whole.type], at)
        body = lowering.body
        message = f"`{self.name}` of the empty list"
        if self.parameters is not None:
            message = f"{self.parameters}, and is called with fewer arguments"
        if isinstance(whole.type, List):
            cell = body.atom(whole.words[0], "cell")
            body.emit(Check(Test("ne", body.operand(cell), Const(0)), "RG0812", message, at.span))
            begin = len(kinds(whole.type.item)) if self.index else 0
            return Value(t, tuple(lowering.loaded(cell, begin + k, kind) for k, kind in enumerate(kinds(t))))
        if t == NOTHING:
            body.emit(Check(Test("ne", Const(0), Const(0)), "RG0812", message, at.span))
            return Value(NOTHING)
        assert isinstance(whole.type, Tuple)
        return whole.split(whole.type.items)[self.index]


#: how a function with several parameters is called
_ALL = "(f x y) gives both arguments; a function of x whose value is a function of y is (lambda (x) (lambda (y) …))."
CAR, CDR = Item("car", 0), Item("cdr", 1)


@dataclass(frozen=True)
class Predicate:
    """A question about the form of a value. `level`: of the code, since a real of lifted code is a bundle."""

    name: str
    level: int = 0

    def lifted(self) -> Predicate:
        return replace(self, level=self.level + 1)

    def type(self, inference: Inference, types: Sequence[Type], at: Place) -> Type:
        t = types[0]
        form = t.form if isinstance(t, Tuple) else ""
        if isinstance(t, List) and self.name in ("null?", "pair?"):
            return BOOLEAN
        match self.name:
            case "null?" | "pair?":
                return Known(form == {"null?": "nil", "pair?": "pair"}[self.name])
            case "real?":
                return Known(is_real(t) and depth(t) == self.level)
            case "bundle?":
                return Known(is_real(t) and depth(t) > self.level)
            case "boolean?":
                return Known(t == BOOLEAN or (isinstance(t, Known) and isinstance(t.value, bool)))
            case "forward?":
                return replace(self, name="bundle?").type(inference, types, at)
            case "perturbation?" | "sensitivity?" | "reverse?":
                return Known(form == self.name[:-1])
            case "symbol?":
                return Known(isinstance(t, Known) and isinstance(t.value, str))
        return Known(isinstance(t, Function) or (form == "reverse" and isinstance(_inside(t), Function)))

    def value(self, lowering: Lowering, values: Sequence[Value], at: Place) -> Value:
        t = self.type(lowering.inference, [values[0].type], at)
        if isinstance(t, Known):
            return Value(t)
        cell = lowering.body.atom(values[0].words[0], "cell")
        address = const(cell.param, Kind.INT) if cell.op == "const" else E("read", Kind.INT, (), cell.param)
        a = lowering.arithmetic
        found = a.binary("==" if self.name == "null?" else "!=", Scalar(address), Number(0))
        return Value(BOOLEAN, (a.expression(found),))


@dataclass(frozen=True)
class Alike:
    """eq?: whether two symbols, truth values or empty lists are the same, of reals whether they are equal."""

    def type(self, inference: Inference, types: Sequence[Type], at: Place) -> Type:
        x, y = types
        if is_real(x) and is_real(y):
            return BOOLEAN if exact_numbers(types) is None else Known(x == y)
        if BOOLEAN in types and all(t == BOOLEAN or isinstance(t, Known) for t in types):
            return BOOLEAN
        if isinstance(x, List) or isinstance(y, List):
            inference.fail("RG0703", "`eq?` of lists", at, "`equal?` compares their items.")
        return Known(x == y and (isinstance(x, Known) or x == Tuple((), NIL)))

    def value(self, lowering: Lowering, values: Sequence[Value], at: Place) -> Value:
        t = self.type(lowering.inference, [v.type for v in values], at)
        if isinstance(t, Known):
            return Value(t)
        if is_real(values[0].type):
            return _comparison(lowering, "==", [v.words[0] for v in in_words(lowering, values, at)])
        words = [lowering.conversions.converted(v, BOOLEAN, at).words[0] for v in values]
        return _comparison(lowering, "==", words)


def _comparison(lowering: Lowering, op: str, words: Sequence[E]) -> Value:
    a = lowering.arithmetic
    return Value(BOOLEAN, (a.expression(a.binary(op, *map(Scalar, words))),))


#: operators of comparisons, and of the functions whose value is known where their arguments are
COMPARED: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
_WHOLE: dict[str, Callable[..., int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


@dataclass(frozen=True)
class Compared:
    """A comparison of reals, by their primal words; `zero`: with zero."""

    name: str
    op: str
    zero: bool = False

    def type(self, inference: Inference, types: Sequence[Type], at: Place) -> Type:
        for t in types:
            if not is_real(t):
                inference.fail("RG0703", f"`{self.name}` compares reals, and not {named(t)}", at)
        numbers = exact_numbers(types)
        if numbers is None:
            return BOOLEAN
        return Known(COMPARED[self.op](numbers[0], 0 if self.zero else numbers[1]))

    def value(self, lowering: Lowering, values: Sequence[Value], at: Place) -> Value:
        known = self.type(lowering.inference, [v.type for v in values], at)
        if isinstance(known, Known):
            return Value(known)
        words = [v.words[0] for v in in_words(lowering, values, at)]
        return _comparison(lowering, self.op, [*words, const(0, Kind.FIXED)] if self.zero else words)


@dataclass(frozen=True)
class Real:
    """A function of reals: of words an operation, of bundles the rule of the prelude."""

    name: str
    op: str
    rule: str

    def _whole(self, inference: Inference, types: Sequence[Type]) -> Type | None:
        """The type of a sum, difference or product of known numbers."""
        numbers = exact_numbers(types)
        if numbers is None or self.op not in _WHOLE:
            return None
        # The negative is 0 − x.
        found = inference.number(_WHOLE[self.op](*(numbers if len(numbers) == 2 else [0, *numbers])))
        return Exact(found.value, depth(types[0])) if isinstance(found, Exact) else None

    def type(self, inference: Inference, types: Sequence[Type], at: Place) -> Type:
        whole = self._whole(inference, types)
        if whole is not None:
            return whole
        types = [forgotten(t) for t in types]
        if all(t == FIXED for t in types):
            return FIXED
        for t in types:
            if not is_real(t):
                inference.fail("RG0703", f"`{self.name}` is not defined for {named(t)}", at)
        if len({depth(t) for t in types}) > 1:
            message = f"`{self.name}` of a bundle and a real"
            inference.fail(
                "RG0703", message, at, "A function of bundles is (j* f); (j* x) makes a bundle of x and zero."
            )
        return type_of_call(inference, self.rule, types)

    def value(self, lowering: Lowering, values: Sequence[Value], at: Place) -> Value:
        whole = self._whole(lowering.inference, [v.type for v in values])
        if isinstance(whole, Exact):
            return Value(whole)
        values = in_words(lowering, values, at)
        if values[0].type != FIXED:
            return call(lowering, self.rule, values, at)
        e = core.Operation(self.op, (), at)
        found = scalar_operation(lowering.arithmetic, e, [Scalar(v.words[0]) for v in values])
        return Value(FIXED, (lowering.arithmetic.expression(found, Kind.FIXED),))


@dataclass(frozen=True)
class Kinked(Real):
    """sqrt and abs, which have a kink at 0. Their slope there, 0 and 1, is that of the machine's instructions; a second derivative traps.

    √(x ⊲ x') = r ⊲ x'/2r or r ⊲ 0 where r = 0        |x ⊲ x'| = |x| ⊲ ±x'
    """

    def type(self, inference: Inference, types: Sequence[Type], at: Place) -> Type:
        t = types[0]
        if not isinstance(t, Tuple) or not is_real(t):
            return super().type(inference, [forgotten(t)], at)
        if self.name == "sqrt" and depth(t) > 1:
            inside = t.items[0]
            self.type(inference, (inside,), at)
            for op in ("+", "/"):
                PRIMITIVES[op].rules.type(inference, (inside, inside), at)
        return t

    def value(self, lowering: Lowering, values: Sequence[Value], at: Place) -> Value:
        x, body, a = lowering.body.named(in_words(lowering, values, at)[0], "x"), lowering.body, lowering.arithmetic
        if not isinstance(x.type, Tuple):
            return super().value(lowering, values, at)
        primal, tangent = x.split(x.type.items)
        result = self.value(lowering, [primal], at)
        if all(e.op == "const" and not e.param for e in x.words[1:]):
            return combined(x.type, (result, tangent))
        of = [body.operand(e) for e in x.words]
        # Of one bundle it is the first derivative, which is differentiated only by programs that differentiate this one.
        first = depth(x.type) == 1
        conditions = tuple(v for v in of if isinstance(v, Var)) if first else ()
        if conditions or not first:
            message = f"{self.name} has no second derivative at {{a}}"
            body.emit(Check(Test("ne", of[0], Const(0)), "RG0815", message, at.span, conditions))

        def number(op: str, *operands: Scalar | Number) -> E:
            return a.expression(a.binary(op, *operands))

        if self.name == "abs":
            below = number("<", Scalar(x.words[0]), Number(0))
            slope = Value(tangent.type, tuple(choose(below, neg(e), e) for e in tangent.words))
        elif not first:
            twice = PRIMITIVES["+"].rules.value(lowering, [result, result], at)
            slope = PRIMITIVES["/"].rules.value(lowering, [tangent, twice], at)
        else:
            root = body.atom(result.words[0], "root")
            quotient = number("/", Scalar(tangent.words[0]), Scalar(number("+", Scalar(root), Scalar(root))))
            slope = Value(FIXED, (choose(number("==", Scalar(root), Number(0)), const(0, Kind.FIXED), quotient),))
            result = Value(FIXED, (root,))
        return combined(x.type, (result, slope))


@dataclass(frozen=True)
class Shaped(OneRule):
    """A function of values of any structure: bundle, primal, tangent, zero, plus (see `Structure`)."""

    name: str
    level: int = 0

    def lifted(self) -> Shaped:
        return replace(self, level=self.level + 1)

    def made(self, inference: Inference, lowering: Lowering | None, values: Sequence[Value], at: Place) -> Value:
        return Structure(inference, at, self.level, lowering).value(self.name, values)


def _inside(t: Type) -> Type:
    return t.items[0] if isinstance(t, Tuple) and t.items else NOTHING


@dataclass(frozen=True)
class Discrete(OneRule):
    """(%discrete x): x, by which there is no derivative. It is refused of functions and of values of reverse mode."""

    def made(self, inference: Inference, lowering: Lowering | None, values: Sequence[Value], at: Place) -> Value:
        t = values[0].type
        if isinstance(t, Known) or t in (BOOLEAN, Tuple((), NIL)):
            return values[0]
        hint = "`gradient-R` gives the list of the derivatives by the values that a function has captured."
        inference.fail("RG0703", f"`gradient-F` by {named(t)}", at, hint)


@dataclass(frozen=True)
class Wrap(OneRule):
    """A value of reverse mode: `*j` of a value, or a sensitivity."""

    form: str

    def made(self, inference: Inference, lowering: Lowering | None, values: Sequence[Value], at: Place) -> Value:
        values = in_words(lowering, values, at)
        return combined(Tuple((values[0].type,), self.form), values)


@dataclass(frozen=True)
class Unwrap(OneRule):
    """The value inside one of reverse mode."""

    name: str
    form: str

    def made(self, inference: Inference, lowering: Lowering | None, values: Sequence[Value], at: Place) -> Value:
        t = values[0].type
        if not isinstance(t, Tuple) or t.form != self.form:
            inference.fail("RG0703", f"`{self.name}` of {named(t)}", at, f"It takes a {self.form} value.")
        return combined(t.items[0], values)


@dataclass(frozen=True)
class Callable_(OneRule):
    """The operator of a call: a function itself; of `(*j f)` the function of reverse values."""

    level: int = 0

    def lifted(self) -> Callable_:
        return Callable_(self.level + 1)

    def made(self, inference: Inference, lowering: Lowering | None, values: Sequence[Value], at: Place) -> Value:
        t = values[0].type
        if isinstance(t, Tuple) and t.form == "reverse" and isinstance(_inside(t), Function):
            return called(inference, lowering, "reverse-function", [combined(_inside(t), values)], at, self.level)
        if isinstance(t, Tuple) and t.form:
            inference.fail("RG0703", f"{named(t)} is called like a function", at)
        return values[0]


@dataclass(frozen=True)
class Reversed(OneRule):
    """(%reversed s): the words of each real in the opposite order, as far as they belong to derivatives around the code."""

    level: int = 0

    def lifted(self) -> Reversed:
        return Reversed(self.level + 1)

    def made(self, inference: Inference, lowering: Lowering | None, values: Sequence[Value], at: Place) -> Value:
        (value,) = values
        if not self.level:
            return value
        t = value.type
        if is_real(t) and depth(t) >= self.level:
            # The outermost bundles are those of derivatives, so a word's number begins with its place in these.
            below = depth(t) - self.level
            last = (1 << self.level) - 1
            return Value(t, tuple(value.words[i ^ (last << below)] for i in range(len(value.words))))
        if isinstance(t, Tuple):
            parts = [self.made(inference, lowering, (v,), at) for v in value.split(t.items)]
            return combined(Tuple(tuple(p.type for p in parts), t.form), parts)
        if isinstance(t, List):
            return called(inference, lowering, "reversed-list", values, at, self.level)
        return value


@dataclass(frozen=True)
class Restored(OneRule):
    """(%restored x s): the sensitivity s of x with the truth values of x, by which there is no derivative."""

    def made(self, inference: Inference, lowering: Lowering | None, values: Sequence[Value], at: Place) -> Value:
        x, found = values
        if not _has_truth(x.type):
            return found
        if isinstance(x.type, List):
            return called(inference, lowering, "restored-list", values, at)
        if isinstance(x.type, Tuple) and isinstance(found.type, Tuple) and x.type != BOOLEAN:
            rows = zip(x.split(x.type.items), found.split(found.type.items), strict=True)
            parts = [self.made(inference, lowering, row, at) for row in rows]
            return combined(Tuple(tuple(p.type for p in parts), found.type.form), parts)
        return x


def _has_truth(t: Type) -> bool:
    """Whether there are truth values in a value, except in variables that functions have captured."""
    match t:
        case Tuple(items):
            return t == BOOLEAN or any(map(_has_truth, items))
        case List(item):
            return _has_truth(item)
    return False


@dataclass(frozen=True)
class Transposed:
    """(%vjp f x s): s·J f(x), by running backward.

    In lifted code the reals are bundles of 2ⁿ words, and the transpose is by bundles and not by words: that of
    (a ⊲ a')·(x ⊲ x') = ax ⊲ ax' + a'x has its words in the opposite order.
    """

    level: int = 0

    def lifted(self) -> Transposed:
        return Transposed(self.level + 1)

    def _function(self, f: Type) -> Function:
        return Function((Closure(Derivative("vjp"), (f,)),))

    def type(self, inference: Inference, types: Sequence[Type], at: Place) -> Type:
        types = [forgotten(t) for t in types]
        f, x, _ = types
        direction = self._direction(inference, types, at)
        if NOTHING in types or direction == NOTHING:
            return NOTHING
        found = _listed(inference.apply(self._function(f), (x, direction), at))
        return Restored().type(inference, (x, Reversed(self.level).type(inference, (found,), at)), at)

    def _direction(self, inference: Inference, types: Sequence[Type], at: Place) -> Type:
        """The type of the sensitivity, where that of a function is a tuple, which VLAD has as a list."""
        f, x, s = types
        y = inference.apply(f, (x,), at)
        if y == NOTHING:
            return NOTHING
        wanted = inference.derivatives.cotangent(y, at)
        if _listed(wanted) != s:
            message = f"the sensitivity of {named(y)} has another form than {named(s)}"
            hint = "It has a real for each real of the value."
            if isinstance(y, Function):
                hint = "It is the list of the sensitivities of what it has captured; `derivative` gives a function."
            inference.fail("RG0703", message, at, hint)
        Reversed(self.level).type(inference, (s,), at)
        return wanted

    def value(self, lowering: Lowering, values: Sequence[Value], at: Place) -> Value:
        values = in_words(lowering, values, at)
        f, x, s = values
        closure = self._function(f.type).alternatives[0]
        direction = self._direction(lowering.inference, [v.type for v in values], at)
        if direction == NOTHING:
            return Value(NOTHING)
        turned = Reversed(self.level)
        s = turned.value(lowering, (s,), at)
        found = lowering.calls.call(closure, [f], [x, Value(direction, s.words, s.views)], at)
        found = turned.value(lowering, (Value(_listed(found.type), found.words, found.views),), at)
        return Restored().value(lowering, (x, found), at)


def _listed(t: Type) -> Type:
    """The type with lists in place of tuples: the sensitivity of a function is the list of those of the values that it has captured."""
    match t:
        case Tuple(items, ""):
            made: Type = Tuple((), NIL)
            for item in reversed(items):
                made = Tuple((_listed(item), made), PAIR)
            return made
        case Tuple(items, form):
            return Tuple(tuple(map(_listed, items)), form)
        case List(item):
            return List(_listed(item))
    return t


@dataclass(frozen=True)
class Real_(OneRule):
    """(real x): x, whose number is not known when the program is compiled."""

    def made(self, inference: Inference, lowering: Lowering | None, values: Sequence[Value], at: Place) -> Value:
        if not is_real(values[0].type):
            inference.fail("RG0703", f"`real` of {named(values[0].type)}", at)
        return in_words(lowering, values, at)[0]


@dataclass(frozen=True)
class Unperturbed(OneRule):
    """(unperturb x): the value inside a perturbation, or the tangent of a bundle, which is a plain value."""

    def made(self, inference: Inference, lowering: Lowering | None, values: Sequence[Value], at: Place) -> Value:
        return _unperturbed(values[0])


def _unperturbed(value: Value) -> Value:
    t = value.type
    return combined(t.items[0], [value]) if isinstance(t, Tuple) and t.form == "perturbation" else value


class Entry(NamedTuple):
    """A primitive, and the number of its arguments."""

    rules: Any
    arguments: int


def _real(name: str, op: str, count: int) -> tuple[str, Entry]:
    return name, Entry(Real(name, op, f"bundle-{name}"), count)


NEGATIVE = Real("-", "-", "bundle-negative")

BUNDLE = Shaped("bundle")

#: predicates of the form of a value
QUESTIONS = (
    "null?", "pair?", "real?", "boolean?", "symbol?", "procedure?", "bundle?", "forward?", "perturbation?", "sensitivity?", "reverse?",
)  # fmt: skip

PRIMITIVES: dict[str, Entry] = dict(
    [
        _real("+", "+", 2), _real("-", "-", 2), _real("*", "*", 2), _real("/", "/", 2),
        ("sqrt", Entry(Kinked("sqrt", "sqrt", ""), 1)), ("abs", Entry(Kinked("abs", "abs", ""), 1)),
        _real("exp", "exp", 1), _real("log", "log", 1), _real("sin", "sin", 1),
        _real("cos", "cos", 1), _real("atan", "atan2", 2),
        *((n, Entry(Compared(n, op), 2)) for n, op in (("=", "=="), ("<", "<"), (">", ">"), ("<=", "<="), (">=", ">="))),
        *((n, Entry(Compared(n, op, True), 1)) for n, op in (("zero?", "=="), ("positive?", ">"), ("negative?", "<"))),
        *((n, Entry(Predicate(n), 1)) for n in QUESTIONS),
        ("eq?", Entry(Alike(), 2)), ("car", Entry(CAR, 1)), ("cdr", Entry(CDR, 1)),
        ("bundle", Entry(Shaped("bundle"), 2)), ("primal", Entry(Shaped("primal"), 1)),
        ("tangent", Entry(Shaped("tangent"), 1)), ("zero", Entry(Shaped("zero"), 1)), ("plus", Entry(Shaped("plus"), 2)),
        ("perturb", Entry(Wrap("perturbation"), 1)), ("unperturb", Entry(Unperturbed(), 1)), ("real", Entry(Real_(), 1)),
        ("*j", Entry(Wrap("reverse"), 1)), ("*j-inverse", Entry(Unwrap("*j-inverse", "reverse"), 1)),
        ("sensitize", Entry(Wrap("sensitivity"), 1)), ("unsensitize", Entry(Unwrap("unsensitize", "sensitivity"), 1)),
        ("%vjp", Entry(Transposed(), 3)), ("%reversed", Entry(Reversed(), 1)), ("%restored", Entry(Restored(), 2)),
        ("%discrete", Entry(Discrete(), 1)),
    ]
)  # fmt: skip
