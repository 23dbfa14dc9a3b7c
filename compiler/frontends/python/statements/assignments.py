"""Assignments `t = e`, `x, y = y, x`; `del t` and `rg.free(t, e)`.

A name is assigned once: it names a constant, a view, or a new local. Assigning a permutation exchanges.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from retrograd.compiler.frontends.builder import IRBuilder, Scope
from retrograd.compiler.frontends.owned_locals import OwnedLocal, OwnedLocals
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.expressions.lowering import ExpressionLowering
from retrograd.compiler.frontends.python.expressions.operators import OPERATORS
from retrograd.compiler.frontends.python.expressions.views import MADE_BY
from retrograd.compiler.frontends.python.source import SourceFunction
from retrograd.compiler.frontends.python.statements.allocation import Allocation
from retrograd.compiler.frontends.python.statements.bijections import Bijections
from retrograd.compiler.frontends.python.statements.locations import Locations
from retrograd.compiler.frontends.python.statements.refusals import refuse_statement
from retrograd.compiler.frontends.python.statements.updates import is_update
from retrograd.compiler.frontends.python.text import shortened
from retrograd.compiler.ir.expressions import const, variables
from retrograd.compiler.ir.flatten import release
from retrograd.compiler.ir.instruction_selection import OPPOSITE
from retrograd.compiler.ir.statements import Kind, Var
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.arithmetic import element
from retrograd.compiler.language.types import ScalarType, scalar_of, static
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    Scalar,
    StackValue,
    StructValue,
    Value,
    describe,
    is_number,
    scalars,
)


@dataclass(eq=False)
class Assignments:
    """Lowers assignments, and statements that free locals."""

    errors: Errors
    expressions: ExpressionLowering
    builder: IRBuilder
    scope: Scope
    locals: OwnedLocals
    locations: Locations
    allocation: Allocation
    bijections: Bijections
    #: names of the function whose values may change; any other name of a constant stands for the constant
    changed: frozenset[str]

    def lower_assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            refuse_statement(self.errors, node)
        self._assign(node.targets[0], node.value, None)

    def lower_annotated(self, node: ast.AnnAssign) -> None:
        if node.value is None or not isinstance(node.target, ast.Name):
            refuse_statement(self.errors, node)
        self._assign(node.target, node.value, node.annotation)

    def lower_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._delete(target)

    def _assign(self, target: ast.expr, value: ast.expr, annotation: ast.expr | None) -> None:
        match target, value:
            case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), (ast.Tuple(elts=values) | ast.List(elts=values))):
                if len(targets) != len(values):
                    self.errors.fail("RG0703", f"{len(targets)} names for {len(values)} values", target)
                left, right = [ast.unparse(x) for x in targets], [ast.unparse(x) for x in values]
                if sorted(left) == sorted(right):
                    self.bijections.permute(targets, values)
                    return
                held = next((x for x in targets if not isinstance(x, ast.Name) or x.id in self.scope.names), None)
                if held is not None:
                    hint = "A tuple on the left exchanges the same variables, `x, y = y, x`. Change each variable by a statement of its own: `x += y`, then `x, y = y, x`."
                    self.errors.fail("RG0706", f"`{shortened(held)}` holds a value already", held, hint)
                for x, v in zip(targets, values, strict=True):
                    self._assign(x, v, None)
                return
            case ast.Name(id=name), _:
                pass
            case ast.Tuple(), _:
                found = self.expressions.value(value)
                if not isinstance(found, Constant) and not (isinstance(found, StructValue) and found.type.is_tuple):
                    self.errors.fail("RG0703", f"`{shortened(value)}` is {describe(found)}, not several values", value)
                self._unpack(target, found, value)
                return
            case _:
                hint = _instead(target, self.expressions.value(target), value)
                hint += "; to exchange two places, write `x, y = y, x`"
                self.errors.fail("RG0706", f"`{shortened(target)}` holds a value already", target, hint)
        if name in self.scope.names:
            self.errors.fail(
                "RG0706", f"`{name}` holds a value already", target, _instead(target, self.scope.names[name], value)
            )
        if isinstance(value, ast.Call):
            if self._pops(value):
                self._pop_new(name, value)
                return
            made = self.allocation.constructed(name, value)
            if made is not None:
                self.scope.names[name] = made
                return
        found = self.expressions.value(value)
        kind: Kind | None = None
        if annotation is not None:
            wanted = scalar_of(self.expressions.static(annotation, "a type"))
            if wanted is None:
                self.errors.fail("RG0703", "a local variable is annotated as int, bool, fixed or lognum", annotation)
            kind = wanted.kind
        self.scope.names[name] = self.allocation.allocate(name, found, kind, value, fixed_name=name not in self.changed)

    def _unpack(self, target: ast.expr, found: Value, node: ast.expr) -> None:
        """`x, (y, z) = e`: a variable for each number, and a name for anything else."""
        if (
            not isinstance(target, ast.Tuple | ast.List)
            or not isinstance(found, StructValue)
            or not found.type.is_tuple
        ):
            self.bind(target, found, target)
            return
        if len(target.elts) != len(found.fields):
            self.errors.fail("RG0703", f"{len(target.elts)} names for {len(found.fields)} values", target)
        for x, v in zip(target.elts, found.fields.values(), strict=True):
            if is_number(v) and isinstance(x, ast.Name) and x.id not in self.scope.names:
                v = self.allocation.allocate(x.id, v, None, node)  # noqa: PLW2901
            self._unpack(x, v, node)

    def _pops(self, call: ast.Call) -> bool:
        """Whether the call is `rg.pop(stack)`."""
        if len(call.args) != 1 or call.keywords or not isinstance(call.func, ast.Name | ast.Attribute):
            return False
        callee = self.expressions.value(call.func)
        return isinstance(callee, Constant) and callee.value is intrinsics.pop

    def _pop_new(self, name: str, call: ast.Call) -> None:
        """`x = rg.pop(s)`: a new variable that is zero, and takes the top of the stack."""
        s = self.locations.location(call.args[0])
        if not isinstance(s, StackValue):
            self.errors.fail("RG0703", f"rg.pop on {describe(s)}, which is no stack", call)
        kind = s.type.element.kind
        zero = Constant(1 if kind is Kind.LOGNUM else 0)
        self.scope.names[name] = self.allocation.allocate(name, zero, kind, call)
        target = ast.copy_location(ast.Name(name, ast.Load()), call)
        self.bijections.push("pop", ast.copy_location(ast.Call(call.func, [call.args[0], target], []), call))

    def bind(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        """Name a value, or the items of a constant; no local is allocated."""
        match target:
            case ast.Name(id=name):
                if name in self.scope.names:
                    self.errors.fail("RG0706", f"`{name}` holds a value already", target)
                self.scope.names[name] = value
            case ast.Tuple(elts=targets) if isinstance(value, StructValue) or (
                isinstance(value, Constant) and isinstance(value.value, tuple | list)
            ):
                items = self.expressions.items(value, node)
                if len(targets) != len(items):
                    self.errors.fail("RG0703", f"{len(targets)} names for {len(items)} values", target)
                for x, v in zip(targets, items, strict=True):
                    self.bind(x, v, node)
            case _:
                hint = (
                    "A dict gives its keys; `.items()` gives keys and values."
                    if isinstance(target, ast.Tuple)
                    else None
                )
                message = f"`{shortened(target)}` is no name for the values of a loop"
                self.errors.fail("RG0701", message, target, hint)

    def _delete(self, target: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            self.errors.fail("RG0701", "`del` frees a variable by its name", target)
        name = target.id
        if name not in self.scope.names:
            found = self.expressions.value(target)  # refuses an unknown or freed name
            message = f"`{name}` is {describe(found)} from outside this function, and cannot be freed"
            self.errors.fail("RG0709", message, target, "Remove the `del`.")
        value = self.scope.names[name]
        named = (m for m in self.locals.owned if m.name == name or m.name.startswith((f"{name}.", f"{name}[")))
        own = [m for m in named if _belongs(m, value)]
        if not own:
            if isinstance(value, Constant):
                del self.scope.names[name]
                return
            message = f"`{name}` was not made in this function, and cannot be freed"
            self.errors.fail("RG0709", message, target, "Remove the `del`.")
        for made in reversed(own):
            self.locals.release(made, self.errors.span(target))
        self.scope.free(name, self.errors.span(target))

    def free(self, name: str, call: ast.Call) -> None:
        """`rg.free(x, e)`: subtract e from x, which must then be zero, and free x; element by element for an array."""
        target, given = call.args
        if not isinstance(target, ast.Name):
            self.errors.fail("RG0701", "rg.free takes a variable by its name", target)
        value = self.locations.location(target)
        made = next((m for m in self.locals.owned if m.name == target.id and m.value is value), None)
        numbers = isinstance(value, Scalar) or (isinstance(value, ArrayView) and isinstance(value.element, ScalarType))
        if made is None or not numbers:
            hint = f"`del {target.id}` frees what was made here." if made is not None else None
            if isinstance(value, StackValue):
                hint = f"Empty it by `rg.pop`, and write `del {target.id}`: a stack is freed when it is empty."
                self.errors.fail("RG0709", f"`{target.id}` is a stack, and rg.free takes numbers", target, hint)
            what = (
                "is no number or array of numbers"
                if made is not None
                else "is no variable that was made in this function"
            )
            self.errors.fail("RG0709", f"`{target.id}` {what}", target, hint)
        if isinstance(value, ArrayView):
            self._free_array(made, value, given, call)
        else:
            assert isinstance(value, Scalar)
            self._free_number(made, value, given, call)
        self.scope.free(target.id, self.errors.span(call))

    def _free_number(self, made: OwnedLocal, x: Scalar, given: ast.expr, call: ast.Call) -> None:
        assert isinstance(x.place, Var)
        e = self.expressions.number(self.expressions.value(given), call, x.kind)
        if x.place in variables(e):
            self.errors.fail("RG0704", f"the value that `{made.name}` is said to have depends on it", call)
        known = made.history == [] and made.initial == e and made.operands == self.builder.snapshot(e) and not made.gone
        tested = not known and not self.locals.is_trusted(made)
        if tested:
            self.locals.test_allocation(made)
        self.locals.remove(made, release(self.builder.temporaries(), x.place, e, tested))

    def _free_array(self, made: OwnedLocal, x: ArrayView, given: ast.expr, call: ast.Call) -> None:
        assert isinstance(x.element, ScalarType)
        e = self.expressions.stored(self.expressions.value(given), given)
        with self.builder.collect() as nodes:
            self.allocation.updates.update_array(x, OPPOSITE[MADE_BY[x.element.kind]], e, call)
        tested = not self.locals.is_trusted(made)
        if tested:
            self.locals.test_allocation(made)
        tests = self.locals.zero_tests(x) if tested else ()
        self.locals.remove(made, (*nodes, *tests, *self.locals.given_back(made)))


def _belongs(made: OwnedLocal, value: Value) -> bool:
    """Whether a local is a value or a field of it."""
    if made.value is value:
        return True
    return isinstance(value, StructValue) and any(_belongs(made, inner) for inner in value.fields.values())


#: kind -> the update that takes any value, and its effect
_CHANGES = {Kind.BOOL: ("^=", "flip it where that is true"), Kind.LOGNUM: ("*=", "multiply it by that")}


def _instead(target: ast.expr, held: Value, value: ast.expr) -> str:
    """A hint for `x = e` where x holds a value: the statement that changes x so, if there is one, or another name for the result."""
    sample = element(held, tuple(const(0, Kind.INT) for _ in held.shape)) if isinstance(held, ArrayView) else held
    kinds = {x.kind for x in scalars(sample)}
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    name = ast.unparse(target)

    def is_x(node: ast.AST) -> bool:
        return ast.unparse(node) == name

    def reads(node: ast.AST) -> bool:
        return any(isinstance(n, ast.expr) and is_x(n) for n in ast.walk(node))

    match value:
        case ast.UnaryOp(op=ast.USub(), operand=x) if is_x(x) and kind not in (None, Kind.BOOL):
            return f"write `rg.neg({name})`"
        case ast.UnaryOp(op=ast.Not(), operand=x) if is_x(x) and kind is Kind.BOOL:
            return f"write `rg.flip({name})`"
        case ast.UnaryOp(op=ast.Invert(), operand=x) if is_x(x) and kind in (Kind.INT, Kind.UINT):
            return f"write `rg.flip({name})`"
        case ast.BinOp(left=x, op=op, right=e) if is_x(x) and not reads(e) and is_update(op, kind):
            return f"write `{name} {OPERATORS[type(op)]}= {shortened(e)}`"
        case ast.BinOp(left=e, op=ast.Add() | ast.BitXor() | ast.Mult() as op, right=x) if (
            is_x(x) and not reads(e) and is_update(op, kind)
        ):
            return f"write `{name} {OPERATORS[type(op)]}= {shortened(e)}`"
        case ast.BinOp(left=e, op=ast.Sub(), right=x) if is_x(x) and not reads(e) and is_update(ast.Sub(), kind):
            return f"write `rg.neg({name})`, and `{name} += {shortened(e)}` behind it"
    if reads(value) or kind is None or isinstance(value, ast.Call):
        return f"choose another name for the new value: `t = {shortened(value)}`"
    sign, effect = _CHANGES.get(kind, ("+=", "add that to it"))
    return f"write `{name} {sign} {shortened(value)}` to {effect}, or choose another name for the new value"


def changed_names(function: SourceFunction) -> frozenset[str]:
    """The names of locals that the function may change, or frees."""
    found: set[str] = set()
    for node in ast.walk(function.tree):
        match node:
            case ast.AugAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.With(items=[ast.withitem(ast.Call(args=args), ast.Name())]):
                found |= {x.id for a in args for x in ast.walk(a) if isinstance(x, ast.Name)}
            case ast.Delete(targets=targets):
                found |= {x.id for x in targets if isinstance(x, ast.Name)}
            case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.UnaryOp(operand=ast.Call() as call)):
                found |= {x.id for x in _passed(call, function) if isinstance(x, ast.Name)}
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                if sorted(map(ast.unparse, targets)) == sorted(map(ast.unparse, values)):
                    found |= {x.id for x in targets if isinstance(x, ast.Name)}
    return frozenset(found)


def _items(node: ast.expr) -> list[ast.expr]:
    """The items of a tuple that is written out, and of `*` of one; the operand of a view; any other expression by itself."""
    if isinstance(node, ast.Starred):
        return _items(node.value)
    match node:
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            return [y for x in elts for y in _items(x)]
        case (
            ast.UnaryOp(operand=operand)
            | ast.BinOp(left=operand, right=ast.Constant())
            | ast.BinOp(left=ast.Constant(), right=operand)
        ):
            return _items(operand)  # a view
    return [node]


def _passed(call: ast.Call, function: SourceFunction) -> list[ast.expr]:
    """The arguments of a call that the callee may change: all but the arguments for static parameters."""
    called = function.found(call.func)
    parameters = called.parameters if isinstance(called, SourceFunction) else ()
    static_names = {p.name for p in parameters if p.annotation is static}
    last = next((p.name for p in parameters if p.variadic), "")
    names = [p.name for p in parameters] + [last] * len(call.args)
    return [
        *(y for x, name in zip(call.args, names, strict=False) if name not in static_names for y in _items(x)),
        *(k.value for k in call.keywords if k.arg not in static_names),
    ]
