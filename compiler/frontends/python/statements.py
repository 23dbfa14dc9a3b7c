"""Calls of reversible functions: `f(x)`, `~f(x)`, `f.each(xs)`.

A call passes variables, and never copies: a variable of the caller is the parameter of the callee while it runs. A word in memory is
exchanged into a variable for the time of the call. The value of an expression is passed as a temporary, which the callee may
not change.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from retrograd.compiler.frontends.python.arguments import (
    Bound,
    Leaf,
    bind_arguments,
    captured_shapes,
    extent,
    fitted_argument,
    shape_of_argument,
)
from retrograd.compiler.frontends.python.branches import loads_clobbered
from retrograd.compiler.frontends.python.context import INSTEAD_OF_EXPRESSION, INSTEAD_OF_STATEMENT, Context, lowers
from retrograd.compiler.frontends.python.indexing import View, chosen_function, lend, view_of
from retrograd.compiler.frontends.python.operators import OPERATORS
from retrograd.compiler.frontends.python.routines import is_finished, recompute, uncompute
from retrograd.compiler.frontends.python.source import SourceFunction, shortened
from retrograd.compiler.frontends.python.updates import apart, differ, refuse_overlap, register
from retrograd.compiler.frontends.specialisation import Specialisation
from retrograd.compiler.ir.expressions import Address, E, Length, RunLength, loads, variables
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import Block, Call, Const, If, Operand, Region, Test, Var, invert
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.arithmetic import first_axis
from retrograd.compiler.language.intrinsics import Intrinsic
from retrograd.compiler.language.types import Shape, bound, merged, row_major, value_of, words_of
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
    tuple_value,
)


def call_function(cx: Context, f: FunctionValue, backward: bool, call: ast.Call) -> None:
    """`f(x, y)`, or `~f(x, y)` where backward."""
    _call_on(cx, f, f.backward != backward, bind_arguments(cx, f, call, f.function.parameters), call)


def call_each(cx: Context, f: FunctionValue, backward: bool, call: ast.Call) -> None:
    """`f.each(xs, ys, c)`: f on the elements of the first axis; scalars are passed to every call."""
    arguments = bind_arguments(cx, f, call, f.function.parameters)
    further = {p.name for p in f.function.parameters if p.variadic}

    def picked(name: str, pick: Callable[[Value], Value]) -> Value:
        """The argument with `pick` of it; `*xs` with `pick` of each item."""
        v, _ = arguments[name]
        return (
            tuple_value([pick(x) for x in v.fields.values()])
            if name in further and isinstance(v, StructValue)
            else pick(v)
        )

    lengths: list[Length] = []

    def measured(v: Value) -> Value:
        if isinstance(v, ArrayView | Lazy) and v.shape:
            lengths.append(v.shape[0])
        return v

    for name in arguments:
        picked(name, measured)
    if len(set(lengths)) != 1:
        message = f"`{shortened(call)}` goes through arrays of the lengths {sorted({*lengths}, key=str)}"
        cx.fail("RG0712", message, call)

    def one(index: tuple[E, ...]) -> None:
        inner = {
            name: (picked(name, lambda v: first_axis(v, index[0])), where) for name, (_, where) in arguments.items()
        }
        _call_on(cx, f, f.backward != backward, inner, call)

    cx.over_elements((merged(lengths),), one)


def call_chosen(cx: Context, functions: Sequence[FunctionValue], index: E, backward: bool, call: ast.Call) -> None:
    """`fs[i](x)`: a branch for each function."""
    branches: list[Block] = []
    for f in functions:
        with cx.block() as inner:
            call_function(cx, f, backward, call)
        branches.append(tuple(inner))
    changes = cx.builder.effects(tuple(node for branch in branches for node in branch))
    changed = sorted(v.name for v in variables(index) & changes.writes)
    if changed:
        message = f"`{shortened(call)}` changes `{changed[0]}`, which chooses the function"
        cx.fail("RG0707", message, call.func, "Choose by a variable that no function of the list changes.")
    t = cx.builder.temporaries()
    number = t.operand(index)
    *others, chosen = branches
    for k, branch in reversed(list(enumerate(others))):
        test = Test("eq", number, Const(k))
        chosen = (If(test, branch, chosen, test, cx.span(call)),)
    cx.builder.emit(t.wrap(chosen, loads_clobbered(index, changes)), made_of_blocks=True)


def _call_on(cx: Context, f: FunctionValue, backward: bool, arguments: Bound, node: ast.Call) -> None:
    """Emit the call of a function on the caller's values."""
    function: SourceFunction = f.function
    shapes: list[Shape] = []
    found: list[Leaf] = []
    sizes: dict[str, Length] = {}
    #: arguments that are changed through a view, by position
    seen: dict[int, View] = {}
    for p in function.parameters:
        value, where = arguments[p.name]
        view = view_of(cx, where) if isinstance(value, Lazy) and isinstance(where, ast.expr) else None
        if view is not None:
            seen[len(found)] = view
            value = view.value
        value = fitted_argument(cx, p, value, where, function, sizes)
        shapes.append(shape_of_argument(cx, p.name, value, where, found))
    shapes += [shape for _, shape in captured_shapes(cx, f, node, found)]

    def refuse(code: str, message: str, hint: str | None = None) -> NoReturn:
        cx.fail(code, message, node, hint)

    callee = cx.specialise(function, tuple(shapes), refuse)
    turned = _turned_arguments(cx, callee, found, seen)
    t = cx.builder.temporaries()
    _refuse_aliases(cx, t, callee, found, seen, node)
    found = [turned[i][1] if i in turned else leaf for i, leaf in enumerate(found)]
    args: list[Operand] = []
    regions: list[Region] = []
    #: words that are exchanged into temporaries, after all addresses are computed
    late: list[tuple[int, Scalar]] = []
    for i, leaf in enumerate(found):
        value, changes = leaf.value, i in callee.written
        why_not = value.why_not
        if isinstance(value, Scalar) and value.place is None:
            why_not = why_not or "it is the value of an expression"
        if changes and why_not is not None:
            called = f"`{function.__name__}` changes `{leaf.name}`"
            message = f"{called}, and `{shortened(leaf.where)}` cannot be changed: {why_not}"
            cx.fail("RG0709", message, leaf.where)
        match value:
            case Scalar(_, Address()) if changes:
                late.append((i, value))
                args.append(Var("later"))
            case Scalar(e):
                args.append(t.operand(e))
            case ArrayView() | StackValue():
                args.append(t.location(value.address))
                regions.append(value.address.region)
    for i, value in late:
        assert isinstance(value.place, Address)
        args[i] = register(cx, t, value.place, value.kind, found[i].name)
    call = Call(callee.name, tuple(args), tuple(regions), backward, cx.span(node))
    before = tuple(n for block, _ in turned.values() for n in block)
    stores = [_words(leaf.value) for i, leaf in enumerate(found) if i in callee.written and not turned]
    cx.builder.emit(
        (*before, *t.wrap((call,)), *invert(before)), stores=[words for words in stores if words is not None]
    )


def _turned_arguments(
    cx: Context, callee: Specialisation, found: list[Leaf], seen: dict[int, View]
) -> dict[int, tuple[Block, Leaf]]:
    """For each argument that is passed through a view: (statements that turn its variable into the view, the view).

    `found` has the variable in its place from here on.
    """
    out: dict[int, tuple[Block, Leaf]] = {}
    for i, leaf in enumerate(found):
        value, where = leaf.value, leaf.where
        if i in callee.written and isinstance(value, Scalar) and value.place is None and isinstance(where, ast.expr):
            view = view_of(cx, where)
            if view is not None and isinstance(view.place, StructValue):
                view = view.of_field(leaf.name.rpartition(".")[2])
            if view is not None and isinstance(view.place, Scalar) and view.kind is value.kind:
                seen[i] = view
        if i in seen:
            assert isinstance(where, ast.expr)
            block, lent = lend(cx, seen[i], where)
            place = seen[i].place
            assert isinstance(place, Scalar | ArrayView)
            assert isinstance(lent, Scalar | ArrayView)
            out[i] = block, Leaf(lent, where, leaf.name)
            found[i] = Leaf(place, where, leaf.name)
    return out


def _refuse_aliases(
    cx: Context, t: Temporaries, callee: Specialisation, found: Sequence[Leaf], seen: Iterable[int], node: ast.Call
) -> None:
    """Refuse or test that two arguments overlap, one of which is changed, or `seen` through a view."""
    f, written = callee.function.__name__, callee.written.union(seen)
    for j, y in enumerate(found):
        for i, x in enumerate(found[:j]):
            if i in written or j in written:
                _refuse_overlap_of(cx, t, f, x, y)
    # Addresses and values of arguments are computed again after the call, so they may not read a place that it changes.
    sources: list[E] = []
    for leaf in found:
        match leaf.value:
            case Scalar(e, None):
                sources.append(e)
            case Scalar(_, Address() as a) | ArrayView(address=a) | StackValue(address=a):
                sources += [e for e, _ in a.terms]
            case _:
                pass
    for i in sorted(written):
        leaf = found[i]
        if isinstance(leaf.value, Scalar):
            if leaf.value.place is not None:
                for e in sources:
                    refuse_overlap(cx, t, e, leaf.value.place, node, leaf.where)
            continue
        view = leaf.value
        for e in sources:
            for at, words in loads(e):
                if at.region is view.address.region:
                    message = f"`{f}` changes `{shortened(leaf.where)}`, and an argument is computed from it"
                    differ(cx, t, at, view.address, words, extent(view), "RG0705", message, node, e)


def _refuse_overlap_of(cx: Context, t: Temporaries, f: str, x: Leaf, y: Leaf) -> None:
    """Refuse or test that two arguments of f overlap."""
    a, b = x.value, y.value
    # An expression that loads from the other argument is tested by the caller: it has no place.
    at_x, at_y = (v.place if isinstance(v, Scalar) else v.address for v in (a, b))
    in_memory = isinstance(at_x, Address) and isinstance(at_y, Address) and at_x.region is at_y.region
    if at_x is None or not (at_x is at_y or in_memory):
        return
    given = (f"`{shortened(leaf.where)}` as `{leaf.name}`" for leaf in (x, y))
    message = f"`{f}` is given {' and '.join(given)}, which overlap"
    if not (isinstance(at_x, Address) and isinstance(at_y, Address)):
        cx.fail("RG0705", message, y.where)
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        differ(cx, t, at_x, at_y, 1, 1, "RG0705", message, y.where)
        return
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        word, view = (at_x, b) if isinstance(a, Scalar) else (at_y, a)
        assert not isinstance(view, Scalar)
        distance = word.minus(view.address)
        if distance is None or 0 <= distance < extent(view):
            cx.fail("RG0705", message, y.where)
        return
    assert not isinstance(b, Scalar)
    if isinstance(a, ArrayView) and isinstance(b, ArrayView) and a.strides == b.strides and _interleave(a, b):
        # Two columns, for example, that are less than a stride apart: they overlap only if they are the same.
        differ(cx, t, a.address, b.address, 1, 1, "RG0705", message, y.where)
        return
    size_a, size_b = _run_extent(a), _run_extent(b)
    of_the_run = any(isinstance(n, RunLength) for v in (a, b) if isinstance(v, ArrayView) for n in v.shape)
    if of_the_run and size_a is not None and size_b is not None:
        apart(cx, t, a.address, b.address, size_a, size_b, message, y.where)
        return
    differ(cx, t, a.address, b.address, extent(a), extent(b), "RG0705", message, y.where)


def _words(value: Scalar | ArrayView | StackValue) -> tuple[Address, int | None] | None:
    """The words of memory in which an argument lies: the first of words in a row, and their number if it is known."""
    match value:
        case Scalar(_, Address() as at):
            return at, 1
        case Scalar():
            return None
        case ArrayView(strides=strides) if any(s < 0 for s in strides):
            return value.address, None
    return value.address, extent(value)


def _run_extent(view: ArrayView | StackValue) -> E | None:
    """The words from the first of an array to behind the last, where they are next to each other; None elsewhere."""
    if not isinstance(view, ArrayView) or view.strides != row_major(tuple(map(bound, view.shape)), view.element.size):
        return None
    return value_of(words_of((*view.shape, view.element.size)))


def _interleave(a: ArrayView, b: ArrayView) -> bool:
    """Whether two views of the same strides overlap only if they have the same address.

    They do if their indices move them by less than the smallest stride.
    """
    least = min(a.strides, default=0)
    spans = {abs(k) for _, k in (*a.address.terms, *b.address.terms)}
    return least > a.element.size and bool(spans) and all(k < least for k in spans)


# -----------------------------------------------------------------------------
# Expressions as statements: calls of reversible functions and of intrinsics, and their inverses `~f(x)`; `~r` and `r()` of routines.


@lowers(ast.Expr)
def lower_expression(cx: Context, statement: ast.Expr) -> None:
    node = statement.value
    if isinstance(node, ast.Constant):
        return  # a docstring
    backward = False
    call = node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        if isinstance(node.operand, ast.Name):
            name = node.operand.id
            if isinstance(cx.scope.names.get(name), RoutineValue) or is_finished(cx, name):
                uncompute(cx, name, node)
                return
        call, backward = node.operand, True
    if not isinstance(call, ast.Call):
        _refuse_useless(cx, node)
    callee = call.func
    if isinstance(callee, ast.Name) and is_finished(cx, callee.id) and callee.id not in cx.scope.names:
        if call.args or call.keywords:
            message = f"the routine `{callee.id}` takes no arguments"
            cx.fail("RG0715", message, call, f"write `{callee.id}()`; the routine reads the variables around it")
        recompute(cx, callee.id, node)
        return
    if isinstance(callee, ast.Attribute) and callee.attr == "each":
        f = cx.value(callee.value)
        if isinstance(f, FunctionValue):
            call_each(cx, f, backward, call)
            return
    chosen = chosen_function(cx, callee)
    if chosen is not None:
        call_chosen(cx, *chosen, backward, call)
        return
    f = cx.value(callee)
    if isinstance(f, FunctionValue):
        call_function(cx, f, backward, call)
        return
    if isinstance(f, Constant) and isinstance(f.value, Intrinsic) and f.value.role == intrinsics.STATEMENT:
        _lower_intrinsic(cx, f.value, call, backward)
        return
    if isinstance(f, Constant) and f.value is print:
        hint = f"with rg.external():\n           {shortened(node)}"
        cx.fail("RG0701", "`print` is for the host, and stands in a block that machines skip", node, hint)
    cx.value(call)  # refuses a call that has no value either
    text = shortened(node)
    cx.fail("RG0701", f"nothing takes the value of `{text}`", node, f"write `y += {text}`")


def _lower_intrinsic(cx: Context, f: Intrinsic, call: ast.Call, backward: bool) -> None:
    name = f.__name__
    if call.keywords:
        cx.fail("RG0715", f"rg.{name} takes no keywords", call)
    count = f.arity
    if len(call.args) != count:
        message = f"rg.{name} takes {count} argument{'s' * (count != 1)}, not {len(call.args)}"
        if name == "pop" and len(call.args) == 1:
            cx.fail("RG0715", message, call, f"write `x = rg.pop({shortened(call.args[0])})`, with a new name")
        hint = None
        if name == "free" and len(call.args) == 1:
            x = ast.unparse(call.args[0])
            hint = f"Write `rg.free({x}, e)` with the value e that it holds, or `del {x}` where the compiler can compute it."
        cx.fail("RG0715", message, call, hint)
    done = f.inverse if backward else f
    if done is None:
        cx.fail("RG0701", f"~rg.{name} is no statement", call)
    cx.perform(done, call)


def _refuse_useless(cx: Context, node: ast.expr) -> NoReturn:
    """Raise RG0701 for an expression whose value nothing takes."""
    hint: str | None
    match node:
        case ast.UnaryOp(op=ast.Invert(), operand=ast.Name(id=name) as operand):
            if name in cx.scope.freed:
                message = f"`{name}` was uncomputed in line {cx.scope.freed[name].line} already"
                cx.fail("RG0711", message, node, "Remove one of the two.")
            found = cx.value(operand)
            hint = "`~r` uncomputes the routine r, and `~f(x)` calls the inverse of f"
            cx.fail("RG0701", f"`{name}` is {describe(found)}, and cannot be uncomputed", node, hint)
        case ast.Compare(ops=[ast.Eq()], left=left, comparators=[right]):
            hint = f"write `assert {shortened(node)}` to claim it, or `{shortened(left)} += {shortened(right)}` to change {shortened(left)}"
        case ast.BinOp(op=ast.Add() | ast.Sub() as op, left=left, right=right):
            hint = f"write `{shortened(left)} {OPERATORS[type(op)]}= {shortened(right)}`"
        case _:
            hint = INSTEAD_OF_STATEMENT.get(type(node)) or INSTEAD_OF_EXPRESSION.get(type(node))
    cx.fail("RG0701", f"nothing takes the value of `{shortened(node)}`", node, hint)
