"""Alias analysis: a statement may not read a location that it changes.

A program is reversible because an update reads nothing that it writes. An overlap that the compiler can see is refused; where an
index decides, the program tests it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from retrograd.compiler.frontends.builder import IRBuilder, Scope
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.expressions.lowering import ExpressionLowering
from retrograd.compiler.frontends.python.expressions.operators import OPERATORS
from retrograd.compiler.frontends.python.text import shortened
from retrograd.compiler.ir.expressions import (
    Address,
    E,
    add,
    apply,
    are_apart,
    const,
    difference_of,
    indices_of,
    loads,
    sub,
    variables,
    walk,
)
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
    is_number,
    overlap,
    type_of,
)

INT = Kind.INT


@dataclass(eq=False)
class Locations:
    """Finds the locations that statements change, and tests that they are disjoint from others."""

    errors: Errors
    expressions: ExpressionLowering
    builder: IRBuilder
    scope: Scope

    def location(self, node: ast.expr) -> Value:
        """The location that an expression names. Raises RG0709 if it cannot be changed."""
        value = self.expressions.value(node)
        self._require_writable(value, node)
        return value

    def _require_writable(self, value: Value, node: ast.AST) -> None:
        match value:
            case Scalar(_, place, why_not) if place is None or why_not is not None:
                reason, _, way = (why_not or "it is an expression").partition("; ")
                self.errors.fail("RG0709", f"`{shortened(node)}` cannot be changed: {reason}", node, way or None)
            case ArrayView(why_not=why_not) | StackValue(why_not=why_not) if why_not is not None:
                self.errors.fail("RG0709", f"`{shortened(node)}` cannot be changed: {why_not}", node)
            case StructValue(_, fields):
                for inner in fields.values():
                    self._require_writable(inner, node)
            case Constant(value=[] | ()):
                hint = (
                    "A list does not grow: keep values in an array, `h = rg.zeros(n)`, or on a stack, `rg.push(s, x)`."
                )
                self.errors.fail("RG0709", f"`{shortened(node)}` is an empty list, and cannot be changed", node, hint)
            case Constant() | Lazy() | FunctionValue() | RoutineValue():
                self.errors.fail("RG0709", f"`{shortened(node)}` is {describe(value)}, and cannot be changed", node)
            case _:
                pass

    def refuse_other_names(self, targets: Sequence[ast.expr], values: Sequence[Value]) -> None:
        """Refuse that targets get new values where another name stands for one of the old ones.

        `p += v` of a struct and `p, q = q, p` bind names anew in Python, and another name keeps the old object. `b.place += v` changes the
        struct b: other names of b have the new value, too, and other names of the former `b.place` keep that.
        """
        own = {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
        for target, value in zip(targets, values, strict=True):
            for name, other in self.scope.names.items():
                if name not in own and _is_other_name(other, value, isinstance(target, ast.Name)):
                    shown = shortened(target)
                    message = f"`{name}` is another name for words of `{shown}`, which changes here"
                    hint = f"Copy what shall stay, `{name} = rg.copy(…)`, or change fields and elements: every name has their new values."
                    self.errors.fail("RG0731", message, target, hint)

    def register(self, t: Temporaries, place: Var | Address, kind: Kind, name: str = "") -> Var:
        """A variable with the value of the place: the place itself, or a temporary that a memory word is exchanged into."""
        if isinstance(place, Var):
            return place
        held = t.fresh(name or place.region.name_of_word, kind)
        t.compute.append(t.memory("exch", held, place))
        return held

    def refuse_overlap(self, t: Temporaries, e: E, where: Var | Address, node: ast.AST, target: ast.AST) -> None:
        """Refuse an expression that reads a location, or test that it does not. The statement `node` changes `target`."""

        def message() -> str:
            return f"`{shortened(node)}` reads `{shortened(target)}`, which it changes"

        if isinstance(where, Var):
            if where in variables(e):
                self.errors.fail("RG0704", message(), _reading(node, target), _new_variable(node))
            return
        for other, words in dict.fromkeys(loads(e)):
            if other.region is where.region:
                if any(at.region is where.region for term, _ in where.terms for at, _ in loads(term)):
                    t.address(where)  # the word of a stack, tested to lie above the count, which its index reads
                self.differ(t, where, other, 1, words, "RG0704", message(), node, e)

    def independent(
        self, t: Temporaries, places: Sequence[tuple[Var | Address, ast.AST]], expressions: Sequence[E], node: ast.AST
    ) -> None:
        """Refuse or test that the expressions, or the indices of the places, read one of the places, which are changed."""
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
        """Refuse or test that the words [x, x + size_x) and [y, y + size_y) overlap."""
        distance = x.minus(y)
        if distance is not None:
            if -size_x < distance < size_y:
                update = isinstance(node, ast.AugAssign) and code == "RG0704"
                where = _reading(node, node.target) if isinstance(node, ast.AugAssign) and update else node
                self.errors.fail(code, message, where, _new_variable(node) if update else None)
            return
        if are_apart(x, size_x, y, size_y, self.builder.ranges, self.builder.w):
            return
        difference = difference_of(x, y, self.builder.w)
        free = variables(difference)
        summed = {v for n in (walk(within) if within is not None else ()) for v in indices_of(n)}
        if free & summed:
            # The index of a sum or an extreme runs over the array, and the ranges do not exclude the word itself.
            self.errors.fail(code, message, node, _new_variable(node))
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
        t.compute.append(Check(test, "RG0805", message, self.errors.span(node)))

    def apart(self, t: Temporaries, x: Address, y: Address, size_x: E, size_y: E, message: str, node: ast.AST) -> None:
        """Test that [x, x + size_x) and [y, y + size_y) do not overlap, for sizes that are known only when the program runs."""
        w = self.builder.w
        t.require((*x.checks, *y.checks))
        # d ≥ size_y or d ≤ −size_x, as one unsigned comparison of d + size_x − 1 with size_x + size_y − 1, or with 0 where one is empty.
        shifted = sub(add(difference_of(x, y, w), size_x, w), const(1, INT), w)
        empty = [apply("seq", INT, size, const(0, INT)) for size in (size_x, size_y)]
        both = apply("seq", INT, apply("or", INT, *empty), const(0, INT))
        most = apply("mul", INT, sub(add(size_x, size_y, w), const(1, INT), w), both)
        test = Test("geu", t.operand(shifted), t.operand(most))
        t.compute.append(Check(test, "RG0805", message, self.errors.span(node)))

    def distinct(self, t: Temporaries, x: Scalar, y: Scalar, call: ast.Call) -> None:
        """Refuse or test that two places of one instruction are the same word."""
        message = f"`{shortened(call.args[0])}` and `{shortened(call.args[1])}` are the same word"
        if isinstance(x.place, Var) or isinstance(y.place, Var):
            if x.place is y.place:
                self.errors.fail("RG0705", message, call)
            return
        assert x.place is not None
        assert y.place is not None
        if x.place.region is y.place.region:
            self.differ(t, x.place, y.place, 1, 1, "RG0705", message, call)


def _is_other_name(other: Value, value: Value, is_bound: bool) -> bool:
    """Whether the value of a name would be changed by a statement that gives another value to a target, a name or a part of something."""
    if isinstance(other, StructValue) and other.type.is_tuple:
        return any(_is_other_name(item, value, is_bound) for item in other.fields.values())
    if is_number(other) or not isinstance(other, StructValue | ArrayView | StackValue):
        return False
    if not is_bound and is_number(value):
        return False  # a number in an array or an object: its other names have the new number in Python, too
    if isinstance(value, StructValue) and not is_bound and not _holds(value, other):
        return False  # a whole, which has the new values of its parts
    return overlap(value, other)


def _holds(value: Value, part: Value) -> bool:
    """Whether a part of a value may be of the type of another."""
    if type_of(value) == type_of(part):
        return True
    return isinstance(value, StructValue) and any(_holds(inner, part) for inner in value.fields.values())


def _reading(node: ast.AST, target: ast.AST) -> ast.AST:
    """The part of an update that reads its target, or the whole statement."""
    if not isinstance(node, ast.AugAssign):
        return node
    text = ast.unparse(target)
    return next((n for n in ast.walk(node.value) if isinstance(n, ast.expr) and ast.unparse(n) == text), node)


def _new_variable(node: ast.AST) -> str | None:
    """A hint for an update that reads its target."""
    if not isinstance(node, ast.AugAssign):
        return None
    target, value, sign = ast.unparse(node.target), ast.unparse(node.value), OPERATORS[type(node.op)]
    if value == target and sign in "-^":
        return f"to make `{target}` zero is to erase it: `rg.erase({target})`"
    if isinstance(node.value, ast.BinOp) and not isinstance(node.value.op, ast.Mult | ast.Div | ast.Pow):
        value = f"({value})"
    return f"make a new variable, `t = {target} {sign} {value}`, and use it from here on"


def sides(difference: E) -> tuple[E, E]:
    """(a, b) with a − b the difference: a test of a = b needs no temporary for the difference."""
    if difference.op == "sub":
        return difference.args[0], difference.args[1]
    return difference, const(0, INT)
