"""Values as values of wider types: numbers, lists, and functions, whose tag and place depend on the type."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.inference import Inference
from retrograd.compiler.frontends.functional.lowering.body import Body
from retrograd.compiler.frontends.functional.lowering.values import Value, combined
from retrograd.compiler.frontends.functional.scalars import guarded
from retrograd.compiler.frontends.functional.types import (
    Closure,
    Data,
    Function,
    Known,
    List,
    Nothing,
    Tuple,
    Type,
    Word,
    kinds,
)
from retrograd.compiler.ir.expressions import choose, const
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.values import Constant, Scalar
from retrograd.compiler.language.values import Value as Operand


def scalar(value: Value) -> Operand:
    """A word as an operand. A constant int stays one, so that it becomes fixed without an instruction."""
    e = value.words[0]
    return Constant(e.param) if e.op == "const" and e.kind is Kind.INT else Scalar(e)


class Conversions:
    """The conversions in one body. `called`: the value of a function without captured values."""

    def __init__(
        self, body: Body, inference: Inference, called: Callable[[Closure, list[Value], core.Place], Value]
    ) -> None:
        self._body, self._inference, self._called = body, inference, called
        self._arithmetic = inference.arithmetic

    def converted(self, value: Value, wanted: Type, at: core.Place) -> Value:
        """The value as one of a wider type."""
        t = value.type
        if t == wanted or isinstance(wanted, Nothing):
            return value
        if isinstance(t, Nothing):
            return Value(wanted, tuple(const(0, kind) for kind in kinds(wanted)))
        match t, wanted:
            case Known(truth), Tuple(_, "boolean"):
                return Value(wanted, (const(int(truth), Kind.BOOL),))
            case Tuple((), "nil"), List():
                return Value(wanted, (const(0, Kind.ADDRESS),))
            case Tuple((_, _) as items, "pair"), List(item):
                head, tail = value.split(items)
                cell = (*self.converted(head, item, at).words, *self.converted(tail, wanted, at).words)
                return self._body.new(wanted, lambda made: self._body.cell(cell, made[0]))
            case Word(), Word(kind):
                e = guarded(at, lambda: Scalar(self._arithmetic.expression(scalar(value), kind)))
                return Value(wanted, (self._arithmetic.expression(e),))
            case Tuple(items), Tuple(others):
                parts = [self.converted(p, o, at) for p, o in zip(value.split(items), others, strict=True)]
                return combined(wanted, parts)
            case Function(given), Function(alternatives):
                return self._retagged(value, given, alternatives, wanted, at)
            case (List(Nothing()), List()) | (Data(), Data()):
                return Value(wanted, value.words)
            case List(), List():
                key = self._inference.list_conversion(t, wanted)
                return Value(wanted, self._called(Closure(key[0]), [value], at).words)
        raise AssertionError((t, wanted))

    def _retagged(
        self, value: Value, given: Sequence[Closure], alternatives: Sequence[Closure], wanted: Type, at: core.Place
    ) -> Value:
        """A function value with the tag and the place of its words in a wider type."""
        places = [next(k for k, c in enumerate(alternatives) if c.code == g.code) for g in given]
        held = dict(zip(places, value.captured(), strict=True))
        parts: list[Value] = []
        for k, alternative in enumerate(alternatives):
            for n, t in enumerate(alternative.captured):
                if k in held:
                    parts.append(self.converted(held[k][n], t, at))
                else:
                    parts.append(Value(t, tuple(const(0, kind) for kind in kinds(t))))
        made = combined(wanted, parts)
        if len(alternatives) == 1:
            return made
        tag = const(places[0], Kind.INT)
        for k, place in list(enumerate(places))[1:]:
            tag = choose(
                self._arithmetic.expression(self._arithmetic.binary("==", Scalar(value.words[0]), Constant(k))),
                const(place, Kind.INT),
                tag,
            )
        return Value(wanted, (tag, *made.words), made.views)
