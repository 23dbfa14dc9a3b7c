"""Locations"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from retrograd.compiler.frontends.ir_builder import IRBuilder
from retrograd.compiler.frontends.python.errors import Errors
from retrograd.compiler.frontends.python.expressions.lowering import ExpressionLowering
from retrograd.compiler.frontends.python.expressions.operators import OPERATORS
from retrograd.compiler.frontends.python.sources.text import shortened
from retrograd.compiler.ir.expressions import Address, E, add, apply, const, interval, loads, read, sub, variables, walk
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import Check, Const, Kind, Test, Var
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    FunctionValue,
    Lazy,
    RoutineValue,
    Scalar,
    StackValue,
    StructValue,
    Value,
    describe,
)
from retrograd.isa.words import Format

INT, FIXED, BOOL = Kind.INT, Kind.FIXED, Kind.BOOL


@dataclass(eq=False)
class Locations:
    """Locations that statements change."""

    errors: Errors
    expressions: ExpressionLowering
    builder: IRBuilder

    def location(self, node: ast.expr) -> Value:
        """What an update or a bijection changes."""
        value = self.expressions.value(node)
        self._require_writable(value, node)
        return value

    def _require_writable(self, value: Value, node: ast.AST) -> None:
        match value:
            case Constant():
                self.errors.fail("RG0709", f"`{shortened(node)}` is {describe(value)}, and cannot be changed", node)
            case Scalar(_, place, why_not) if place is None or why_not is not None:
                self.errors.fail(
                    "RG0709", f"`{shortened(node)}` cannot be changed: {why_not or 'it is an expression'}", node
                )
            case ArrayView(why_not=why_not) | StackValue(why_not=why_not) if why_not is not None:
                self.errors.fail("RG0709", f"`{shortened(node)}` cannot be changed: {why_not}", node)
            case StructValue(_, fields):
                for inner in fields.values():
                    self._require_writable(inner, node)
            case Lazy() | FunctionValue() | RoutineValue():
                self.errors.fail("RG0709", f"`{shortened(node)}` is {describe(value)}, and cannot be changed", node)
            case _:
                pass

    def register(self, t: Temporaries, place: Var | Address, kind: Kind, name: str = "") -> Var:
        """A variable that stands for the place: itself, or one that a memory word is exchanged into meanwhile."""
        if isinstance(place, Var):
            return place
        held = t.fresh(name or place.region.name, kind)
        t.compute.append(t.memory("exch", held, place))
        return held

    def refuse_overlap(self, t: Temporaries, e: E, where: Var | Address, node: ast.AST, target: ast.AST) -> None:
        """An update may not read what it writes: refused where it does, tested when the program runs where it might."""
        if isinstance(where, Var):
            if where in variables(e):
                name = shortened(target)
                message = f"`{shortened(node)}` reads `{name}`, which it changes"
                self.errors.fail("RG0704", message, _reading(node, target), _new_variable(node))
            return
        seen: set[Address] = set()
        for other in loads(e):
            if other.region is not where.region or other in seen:
                continue
            seen.add(other)
            self.differ(
                t,
                where,
                other,
                1,
                1,
                "RG0704",
                f"`{shortened(node)}` reads `{shortened(target)}`, which it changes",
                node,
                e,
            )

    def independent(
        self, t: Temporaries, places: Sequence[tuple[Var | Address, ast.AST]], expressions: Sequence[E], node: ast.AST
    ) -> None:
        """Neither the expressions nor the indices of any of the places may read one of the places, all of which are changed."""
        indices = [term for place, _ in places if isinstance(place, Address) for term, _ in place.terms]
        for place, target in places:
            for e in (*expressions, *indices):
                self.refuse_overlap(t, e, place, node, target)

    def differ(
        self,
        t: Temporaries,
        x: Address,
        y: Address,
        size_x: int,
        size_y: int,
        code: str,
        message: str,
        node: ast.AST,
        within: E | None = None,
    ) -> None:
        """The words [x, x + size_x) and [y, y + size_y) are disjoint: decided now, or tested when the program runs."""
        distance = x.minus(y)
        if distance is not None:
            if -size_x < distance < size_y:
                if code == "RG0704":
                    where = _reading(node, node.target) if isinstance(node, ast.AugAssign) else node
                    self.errors.fail(code, message, where, _new_variable(node))
                self.errors.fail(code, message, node)
            return
        difference = difference_of(x, y, self.builder.w)
        bounds = interval(difference, self.builder.ranges)
        if bounds is not None and (bounds[0] >= size_y or bounds[1] <= -size_x):
            return
        free = variables(difference)
        summed = {v for n in (walk(within) if within is not None else ()) if n.op == "total" for v in n.param[0]}
        if free & summed:
            # An index that runs over the array: the sum reads the word itself at some point, unless ranges say no.
            self.errors.fail(code, message, node, "sum into a variable of its own first")
        span = self.errors.span(node)
        if size_x == size_y == 1:
            a, b = sides(difference)
            test = Test("ne", t.operand(a), t.operand(b))
            named = [f"`{x.param.name}`" for x in (a, b) if x.op == "read"]
            if len(named) == sum(x.op != "const" for x in (a, b)):
                message += f": {' and '.join(named)} {'is' if len(named) == 1 else 'are both'} {{a}}"
        else:
            # d ≥ size_y or d ≤ −size_x, as one unsigned comparison of d + size_x − 1 with size_x + size_y − 1
            shifted = add(difference, const(size_x - 1, INT), self.builder.w)
            test = Test("geu", t.operand(shifted), Const(size_x + size_y - 1))
        t.compute.append(Check(test, "RG0805", message, span))

    def distinct(self, t: Temporaries, x: Scalar, y: Scalar, call: ast.Call) -> None:
        """Two places that an instruction changes must not be one."""
        message = f"`{shortened(call.args[0])}` and `{shortened(call.args[1])}` are the same word"
        if isinstance(x.place, Var) or isinstance(y.place, Var):
            if x.place is y.place:
                self.errors.fail("RG0705", message, call)
            return
        assert x.place is not None
        assert y.place is not None
        if x.place.region is y.place.region:
            self.differ(t, x.place, y.place, 1, 1, "RG0705", message, call)


def _reading(node: ast.AST, target: ast.AST) -> ast.AST:
    """Where an update reads what it writes, if that is to be seen; else the whole statement."""
    if not isinstance(node, ast.AugAssign):
        return node
    text = ast.unparse(target)
    return next((n for n in ast.walk(node.value) if isinstance(n, ast.expr) and ast.unparse(n) == text), node)


def _new_variable(node: ast.AST) -> str | None:
    """What to write in place of an update that reads what it writes."""
    if not isinstance(node, ast.AugAssign):
        return None
    target, value, sign = ast.unparse(node.target), ast.unparse(node.value), OPERATORS[type(node.op)]
    if value == target and sign in "-^":
        return f"to make `{target}` zero is to erase it: `rg.erase({target})`"
    if isinstance(node.value, ast.BinOp) and not isinstance(node.value.op, ast.Mult | ast.Div | ast.Pow):
        value = f"({value})"
    return f"make a new variable, `t = {target} {sign} {value}`, and use it from here on"


def difference_of(x: Address, y: Address, w: Format) -> E:
    """x − y in words."""
    e = const(w.signed(x.offset - y.offset), INT)
    total: dict[E, int] = dict(x.terms)
    for term, k in y.terms:
        total[term] = total.get(term, 0) - k
    for base, sign in ((x.base, 1), (y.base, -1)):
        if base is not None and x.base is not y.base:
            key = read(base)
            total[key] = total.get(key, 0) + sign
    for term, k in total.items():
        if k == 1:
            e = add(e, term, w)
        elif k == -1:
            e = sub(e, term, w)
        elif k:
            e = add(e, apply("mul", INT, term, const(w.signed(k), INT)), w)
    return e


def sides(difference: E) -> tuple[E, E]:
    """(a, b) with a − b the difference, so that a test for equality needs no temporary where both are at hand."""
    if difference.op == "sub":
        return difference.args[0], difference.args[1]
    return difference, const(0, INT)
