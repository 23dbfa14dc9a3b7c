"""Calls of function values: inlined, as calls of procedures, or as a branch on the function that a value is.

Functions that are small and do not call themselves are inlined. Others become procedures, one for each combination of types. A derivative is a
call of the gradient of a procedure, which restores the heap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.inference import Inference
from retrograd.compiler.frontends.functional.lowering.body import Body
from retrograd.compiler.frontends.functional.lowering.values import Env, Value, combined
from retrograd.compiler.frontends.functional.structures import StructureLowering, has_cells
from retrograd.compiler.frontends.functional.types import (
    FIXED,
    INT,
    Array,
    Closure,
    Derivative,
    Function,
    Key,
    Tuple,
    Type,
    kinds,
)
from retrograd.compiler.ir.expressions import Address, E, const
from retrograd.compiler.ir.statements import Block, Call, Const, Delocal, If, Kind, Local, Operand, Region, Test, Var
from retrograd.compiler.language.values import Constant, Scalar

#: nodes of a function that is inlined, and functions that are inlined within each other
_SMALL, _DEEPEST = 60, 16

ValueOf = Callable[[core.Core, Env], Value]
Into = Callable[[core.Core, Env, list[Var], Type], None]
Converted = Callable[[Value, Type, core.Place], Value]


class Procedures(Protocol):
    """The procedures of a program (program.py)."""

    inference: Inference

    def version(self, key: Key) -> str:
        """The procedure of a function. Parameters: words of the captured values, of its arguments, of its result, and `hp`."""

    def gradient(self, mode: str, f: Type, args: tuple[Type, ...], at: core.Place) -> str:
        """The procedure of a derivative. Parameters: words of f and its arguments, a zero, `hp`, and the gradients."""

    def tangent(self, f: Type, x: Type, at: core.Place) -> str:
        """The procedure of jvp(f)(x, v). Parameters: words of f and x, zeros, `hp`, numbers of v, and the tangents."""


def differentiated(mode: str, args: tuple[Type, ...]) -> tuple[Type, ...]:
    """The arguments by which a derivative is taken: `vjp(f)(x, direction)`."""
    return args if mode == "grad" else args[:-1]


class Calls:
    """Lowers the calls in one body."""

    def __init__(
        self,
        procedures: Procedures,
        body: Body,
        value: ValueOf,
        into: Into,
        converted: Converted,
        structures: StructureLowering,
    ) -> None:
        self._procedures, self._body = procedures, body
        self._inference = procedures.inference
        self._value, self._into, self._converted, self._structures = value, into, converted, structures
        self._inlined = 0

    def apply(self, f: Value, args: list[Value], at: core.Place) -> Value:
        """f(args)"""
        assert isinstance(f.type, Function)
        if len(f.type.alternatives) == 1:
            return self.call(f.type.alternatives[0], f.captured()[0], args, at)
        t = self._inference.apply(f.type, tuple(a.type for a in args), at)
        return self._body.new(t, lambda targets: self._dispatch(f, args, targets, t, at))

    def apply_into(self, f: Value, args: list[Value], at: core.Place, targets: list[Var], t: Type) -> None:
        """targets += f(args), as a value of type t. The targets are zero."""
        assert isinstance(f.type, Function)
        if len(f.type.alternatives) > 1:
            self._dispatch(f, args, targets, t, at)
            return
        closure, captured = f.type.alternatives[0], f.captured()[0]
        key: Key = (closure.code, closure.captured, tuple(a.type for a in args))
        if not isinstance(closure.code, core.Lambda) or self._inference.results[key] != t:
            self._body.add(targets, self._converted(self.call(closure, captured, args, at), t, at).words)
        elif self._inlines(key):
            self._inlined += 1
            self._into(closure.code.body, self._inside(closure, captured, args), targets, t)
            self._inlined -= 1
        else:
            self._call_procedure(key, captured, args, targets, at)

    def call(self, closure: Closure, captured: Sequence[Value], args: list[Value], at: core.Place) -> Value:
        """The value of one function."""
        code, types = closure.code, tuple(a.type for a in args)
        if isinstance(code, core.Operator):
            return Value(Function((Closure(Derivative(code.name), types),)), args[0].words, args[0].views)
        if isinstance(code, Derivative):
            return self._derivative(code, captured[0], args, at)
        key: Key = (code, closure.captured, types)
        result = self._inference.results[key]
        if not self._inlines(key):
            return self._body.new(
                result, lambda targets: self._call_procedure(key, captured, args, targets, at), code.name
            )
        self._inlined += 1
        found = self._value(code.body, self._inside(closure, captured, args))
        self._inlined -= 1
        return self._converted(found, result, at)

    def _inlines(self, key: Key) -> bool:
        return key[0].size <= _SMALL and self._inlined < _DEEPEST and not self._inference.is_recursive(key)

    def _inside(self, closure: Closure, captured: Sequence[Value], args: Sequence[Value]) -> Env:
        """The variables in the body of a function that is inlined."""
        named = [self._body.named(a, b.name) for a, b in zip(args, closure.code.params, strict=True)]
        return environment(closure.code, captured, named)

    def _dispatch(self, f: Value, args: list[Value], targets: list[Var], t: Type, at: core.Place) -> None:
        """A branch on the function that the value is."""
        assert isinstance(f.type, Function)
        alternatives, captured = f.type.alternatives, f.captured()
        args = [self._body.named(a, "x") for a in args]
        tag = self._body.operand(f.words[0])
        span = at.span

        def from_(k: int) -> Block:
            with self._body.nested() as inner:
                found = self.call(alternatives[k], captured[k], args, at)
                self._body.add(targets, self._converted(found, t, at).words)
            if k == len(alternatives) - 1:
                return tuple(inner)
            test = Test("eq", tag, Const(k))
            return (If(test, tuple(inner), from_(k + 1), test, span),)

        self._body.emit(*from_(0))

    def _call_procedure(
        self, key: Key, captured: Sequence[Value], args: Sequence[Value], targets: Sequence[Var], at: core.Place
    ) -> None:
        operands, regions = self._passed((*captured, *args))
        name = self._procedures.version(key)
        self._body.uses_heap = True
        self._body.emit(Call(name, (*operands, *targets, self._body.hp), regions, False, at.span))

    def _derivative(self, code: Derivative, f: Value, args: list[Value], at: core.Place) -> Value:
        types = tuple(a.type for a in args)
        if code.mode == "jvp":
            value = self._inference.apply(f.type, types[:-1], at)
            if not has_cells((value, *types)):
                return self._tangent(f, args[0], args[1], value, at)
            key = self._inference.derivatives.forward_key(f.type, value, types)
            return self.call(Closure(key[0]), (), [f, *args], at)
        if code.mode == "hessian":
            return self.call(Closure(self._inference.derivatives.second_key(f.type, types)[0]), (), [f, *args], at)
        name = self._procedures.gradient(code.mode, f.type, types, at)
        given = differentiated(code.mode, types)
        forms = [self._inference.derivatives.cotangent(t, at) for t in given]
        xs, others = args[: len(given)], args[len(given) :]
        zeros: list[Value] = []
        places: list[Operand] = []
        if has_cells(given):
            # Cells of the argument become those of a copy; the cotangents are added to a second copy, which begins as zeros.
            begin = self._body.mark()
            xs = [self._structures.copy(x, Value(INT, (const(1, Kind.INT),)), at) for x in xs]
            end = self._body.mark()
            zeros = [self._structures.copy(x, Value(INT, (const(0, Kind.INT),)), at) for x in xs]
            a = self._inference.arithmetic
            count = a.expression(a.binary("-", Scalar(end), Scalar(begin)))
            places = [self._body.operand(begin), self._body.operand(count)]
        operands, regions = self._passed((f, *xs, *others))
        sources = [k for t in given for k in kinds(t)]
        numbers = sources.count(Kind.FIXED)

        def fill(targets: list[Var]) -> None:
            loss = Var("loss", Kind.FIXED, at.span)
            self._body.uses_heap = True
            call = Call(name, (*operands, loss, self._body.hp, *targets, *places), regions, False, at.span)
            self._body.emit(Local(loss), call, Delocal(loss))

        gains = iter(self._body.new(Tuple((FIXED,) * numbers), fill, "d").words)
        words: list[E] = [e for z in zeros for e in z.words] or [const(0, k) for k in sources]
        made = tuple(
            next(gains) if k is Kind.FIXED else cell if k is Kind.ADDRESS else const(0, found)
            for k, found, cell in zip(sources, (k for t in forms for k in kinds(t)), words, strict=True)
        )
        return Value(forms[0] if len(forms) == 1 else Tuple(tuple(forms)), made)

    def _tangent(self, f: Value, x: Value, direction: Value, value: Type, at: core.Place) -> Value:
        """jvp(f)(x, direction), a value of type `value` without cells."""
        name = self._procedures.tangent(f.type, x.type, at)
        operands, regions = self._passed((f, x))
        form = self._inference.derivatives.cotangent(x.type, at)
        words = self._converted(direction, form, at).words
        given = [self._body.operand(e) for e, k in zip(words, kinds(x.type), strict=True) if k is Kind.FIXED]
        numbers = kinds(value).count(Kind.FIXED)

        def fill(targets: list[Var]) -> None:
            results = [Var("result", Kind.FIXED, at.span) for _ in targets]
            self._body.uses_heap = True
            call = Call(name, (*operands, *results, self._body.hp, *given, *targets), regions, False, at.span)
            self._body.emit(*map(Local, results), call, *map(Delocal, reversed(results)))

        gains = iter(self._body.new(Tuple((FIXED,) * numbers), fill, "d").words)
        form = self._inference.derivatives.cotangent(value, at)
        of = zip(kinds(value), kinds(form), strict=True)
        return Value(form, tuple(next(gains) if k is Kind.FIXED else const(0, found) for k, found in of))

    # ------------------------------------------------------------------ operands

    def _passed(self, values: Sequence[Value]) -> tuple[tuple[Operand, ...], tuple[Region, ...]]:
        """The operands and regions of a call for these values, in the order of the parameters."""
        operands: list[Operand] = []
        regions: list[Region] = []

        def add(value: Value) -> None:
            match value.type:
                case Array():
                    operands.append(self._address(value.views[0]))
                    regions.append(value.views[0].region)
                case Tuple(items):
                    for part in value.split(items):
                        add(part)
                case Function(alternatives):
                    if len(alternatives) > 1:
                        operands.append(self._body.operand(value.words[0]))
                    for parts in value.captured():
                        for part in parts:
                            add(part)
                case _:
                    operands.extend(self._body.operand(e) for e in value.words)

        for value in values:
            add(value)
        return tuple(operands), tuple(regions)

    def _address(self, at: Address) -> Operand:
        """The address of an array, whose elements are tested where they are read."""
        a = self._inference.arithmetic
        total: E = const(at.offset + (at.region.address or 0 if at.base is None else 0), Kind.INT)
        if at.base is not None:
            total = a.expression(a.binary("+", Scalar(E("read", Kind.INT, (), at.base)), Scalar(total)))
        for term, factor in at.terms:
            product = a.binary("*", Scalar(term), Constant(factor))
            total = a.expression(a.binary("+", product, Scalar(total)))
        return self._body.operand(total)


def environment(code: core.Lambda, captured: Sequence[Value], args: Sequence[Value]) -> Env:
    """The variables in the body of a function: the captured values, its letrec, its arguments."""
    env: Env = dict(zip(code.free, captured, strict=True))
    own = tuple(v.type for v in captured)
    env |= {b: combined(Function((Closure(f, own),)), captured) for b, f in code.group}
    return env | dict(zip(code.params, args, strict=True))
