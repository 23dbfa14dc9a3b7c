"""Locals: allocation by `t = e` and `t = rg.zeros(n)`, other names for a value, freeing by `del t` and `rg.free(t, e)`.

t = e      local t = 0; t += e        freed by the inverse: t −= e; delocal t = 0
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from retrograd.compiler.frontends.builder import OwnedLocal, Versions
from retrograd.compiler.frontends.python.calls import items_of
from retrograd.compiler.frontends.python.context import Context, lowers, performs
from retrograd.compiler.frontends.python.expressions import OPERATORS
from retrograd.compiler.frontends.python.indexing import made_by
from retrograd.compiler.frontends.python.source import shortened
from retrograd.compiler.frontends.python.updates import in_loop, is_update, location, permute, update_array
from retrograd.compiler.ir.expressions import (
    Address,
    E,
    InRange,
    Length,
    RunLength,
    const,
    load,
    loads,
    read,
    variables,
)
from retrograd.compiler.ir.flatten import allocate, release
from retrograd.compiler.ir.instruction_selection import OPPOSITE
from retrograd.compiler.ir.statements import SP, Block, Const, Delocal, Kind, Local, Node, Op, Region, Var, invert
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.arithmetic import element, number_kind
from retrograd.compiler.language.intrinsics import Intrinsic
from retrograd.compiler.language.types import (
    COMPLEX,
    LARGEST,
    ArrayType,
    ScalarType,
    StackType,
    StructType,
    Type,
    bound,
    element_of,
    element_of_stack,
    is_complex,
    is_empty,
    is_known,
    layouts,
    note_range,
    part_name,
    row_major,
    scalar_of,
    value_of,
    words_of,
)
from retrograd.compiler.language.types import operands as lengths_read
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    Lazy,
    Scalar,
    StackValue,
    StructValue,
    Value,
    describe,
    is_number,
    mapped,
    parts,
    places,
    scalars,
    variable,
)
from retrograd.isa.diagnostics import Span
from retrograd.isa.table import TABLE

INT, FIXED, BOOL = Kind.INT, Kind.FIXED, Kind.BOOL


def make_local(
    cx: Context, name: str, value: Value, kind: Kind | None, node: ast.expr, fixed_name: bool = False
) -> Value:
    """`name = value`: a new variable, a copy of an array expression, or another name for a view.

    `fixed_name`: the function does not change the name, so that it may stand for a constant.
    """
    match value:
        case Constant(complex()) if not fixed_name:
            return make_local(cx, name, cx.arithmetic.complex.of_type(COMPLEX, value), kind, node)
        case Constant(v) if number_kind(v) is None or (fixed_name and kind is None):
            return value  # a name for a constant
        case Constant() | Scalar():
            e = cx.number(value, node, kind)
            return _make_number(cx, name, e, node)
        case StructValue(t, fields) if t.is_tuple and isinstance(node, ast.Tuple | ast.List):
            # Values of expressions become variables; variables that the function does not change get another name.
            made: dict[str, Value] = {}
            for at, (f, v) in zip(items_of(node, len(fields)), fields.items(), strict=True):
                named = isinstance(at, ast.Name) and at.id not in cx.changed and is_number(v)
                made[f] = v if named else make_local(cx, part_name(name, t, f), v, None, node)
            return StructValue(t, made)
        case StructValue(t, fields) if (
            t == COMPLEX
            or isinstance(node, ast.Call | ast.BinOp | ast.UnaryOp)
            or any(isinstance(v, Scalar) and v.place is None for v in fields.values())
        ):
            made = {}
            for field_name, inner in fields.items():
                wanted = dict(t.fields)[field_name]
                inner_kind = wanted.kind if isinstance(wanted, ScalarType) else None
                made[field_name] = make_local(cx, f"{name}.{field_name}", inner, inner_kind, node)
            return StructValue(t, made)
        case Lazy() if isinstance(node, ast.IfExp) and not _are_new(node.body, node.orelse):
            message = f"`{name}` would be a new array; in Python it is another name for one of two"
            hint = f"Write `rg.select({shortened(node.test)}, {shortened(node.body)}, {shortened(node.orelse)})` for a new array."
            cx.fail("RG0731", message, node, hint)
        case Lazy():
            return _make_array(cx, name, value, node)
        case ArrayView() | StructValue() | StackValue():
            return hold_view(cx, name, value, node)
        case _:
            return value  # a function: another name for it


def hold_view(cx: Context, name: str, value: Value, node: ast.AST) -> Value:
    """`row = a[i]`: another name for the elements. Where i may change, a variable holds their address."""
    moved: dict[tuple[Any, ...], Address] = {}
    for a in places(value):
        if isinstance(a, Var):
            continue
        key = (a.region, a.base, a.terms)
        # An index made of constants and indices of loops does not change while it is in scope.
        settled = all(not loads(e) and variables(e) <= cx.builder.settled for e, _ in a.terms)
        if not settled and key not in moved:
            moved[key] = _hold_address(cx, name, a._replace(offset=0), node)
    return _relocated(value, moved) if moved else value


def _hold_address(cx: Context, name: str, at: Address, node: ast.AST) -> Address:
    """The address, held in a variable."""
    base = Var(f"{name}.base", Kind.ADDRESS, cx.span(node))

    def nodes() -> Block:
        t = cx.builder.temporaries()
        a, imm = t.address(at)
        body = [Op(TABLE["mov.add"], base, a, None, 0, t.span)]
        if imm:
            body.append(Op(TABLE["mov.add"], base, Const(cx.w.wrap(imm)), None, 0, t.span))
        return (Local(base, False, t.span), *t.wrap(tuple(body)))

    cx.builder.emit(nodes())
    statement = cx.builder.span

    def undo(checked: bool, _: Span | None) -> Block:
        cx.builder.span = statement
        return tuple(n._replace(checked=checked) if isinstance(n, Delocal) else n for n in invert(nodes()))

    operands = cx.builder.snapshot(*(e for e, _ in at.terms))
    cx.locals.add(OwnedLocal(name, variable(base), (base,), undo, operands, cx.span(node)))
    return Address(at.region, base)


def _make_number(cx: Context, name: str, e: E, node: ast.AST) -> Value:
    var = Var(name, e.kind, cx.span(node))
    t = cx.builder.temporaries()
    cx.builder.emit(allocate(t, var, e), var)
    result = variable(var)
    statement = cx.builder.span

    def undo(checked: bool, where: Span | None) -> Block:
        if where is None:
            cx.builder.span = statement
        return release(cx.builder.temporaries(), var, e, checked)

    operands = cx.builder.snapshot(e)
    made = OwnedLocal(name, result, (var,), undo, operands, cx.span(node), read=loads(e), initial=e)
    cx.locals.add(made)
    return result


def new_array(
    cx: Context, name: str, t: ScalarType | StructType | StackType, shape: Sequence[Length], node: ast.AST
) -> tuple[ArrayView | StackValue, Block]:
    """Zeroed memory: the array or stack in it, and the statements that put its words on the stack."""
    span = cx.span(node)
    kept: Block = ()
    if shape and isinstance(shape[0], RunLength):
        kept, length = _kept_length(cx, name, shape[0], span)
        shape = (length, *shape[1:])
    unknown = next((n for n in shape[1:] if isinstance(n, RunLength)), None)
    if unknown is not None:
        message = f"`{name}` has an axis after the first whose length is known only when the program runs"
        hint = "Let that axis be the first, or give it its greatest length and use a part of it: `t[i, :n]`."
        cx.fail("RG0717", message, node, hint)
    strides = row_major(tuple(map(bound, shape)), t.size)
    size = words_of((*shape, t.size))
    axes = (tuple(shape), strides) if is_known(shape) else ((), ())
    inside = tuple(layouts(t, name, 0, *axes)) if is_known(shape) else ()
    if is_known(shape) and not cx.recursive:
        region = cx.builder.module.static_region(f"{cx.function.__name__}.{name}", bound(size), span, layouts=inside)
        address = Address(region, None)
        first: Block = ()
    else:
        # Each activation of a recursive function has its own arrays, on the stack.
        region = Region(name, size if isinstance(size, int) else 1, span=span, layouts=inside)
        base = Var(f"{name}.base", Kind.ADDRESS, span)
        address = Address(region, base)
        words = cx.builder.temporaries()
        grown = Op(TABLE["mov.add"], SP, words.operand(value_of(size)), None, 0, span)
        first = (*kept, Local(base, False, span), Op(TABLE["mov.add"], base, SP, None, 0, span), *words.wrap((grown,)))
    if isinstance(t, StackType) and not shape:
        return StackValue(t, address), first
    return ArrayView(t, tuple(shape), strides, address), first


def _kept_length(cx: Context, name: str, length: RunLength, span: Span) -> tuple[Block, RunLength]:
    """The length in a variable of its own, which does not change while the array lives, and the statements that make it."""
    t = cx.builder.temporaries()
    t.require(length.checks)
    var = Var(f"{name}.length", INT, span)
    return allocate(t, var, length.e), replace(length, e=read(var), checks=())


def _make_array(cx: Context, name: str, value: Lazy, node: ast.AST) -> Value:
    """`name = array expression`: a copy of its values."""
    sample = any_element(cx, value)
    if isinstance(sample, StructValue) and is_complex(sample.type):
        view, first = new_array(cx, name, sample.type, value.shape, node)
        kind, reads = FIXED, [v.e for v in sample.fields.values() if isinstance(v, Scalar)]
    elif isinstance(sample, Scalar | Constant):
        kind = cx.number(sample, node).kind
        view, first = new_array(cx, name, ScalarType(kind), value.shape, node)
        reads = [sample.e] if isinstance(sample, Scalar) else []
    else:
        cx.fail("RG0703", f"an array of {describe(sample)} cannot be copied", node)
    assert isinstance(view, ArrayView)
    operands = cx.builder.snapshot(*reads)
    update = made_by(kind)
    cx.builder.emit(first)
    place = (cx.builder.out, len(cx.builder.out))
    update_array(cx, view, update, value, node)
    filled = tuple(place[0][place[1] :])
    region = view.address.region
    start = cx.builder.versions[region]
    statement = cx.builder.span

    def undo(checked: bool, _: Span | None) -> Block:
        if not checked:
            return invert(filled)
        builder = cx.builder
        builder.span = statement
        written, versions = set(builder.written), Counter(builder.versions)
        with builder.collect() as nodes:
            update_array(cx, view, OPPOSITE[update], value, node)
        builder.written, builder.versions = written, versions
        return (*nodes, *(cx.locals.zero_tests(view) if checked else ()))

    operands |= {region: start, **cx.builder.snapshot(*lengths_read(value.shape))}
    read = [found for e in reads for found in loads(e)]
    _own_array(cx, name, view, undo, operands, node, place, first, read)
    return view


def any_element(cx: Context, array: Lazy) -> Value:
    """An element at indices that stand for all."""
    indices = [Var(f"i{axis}", INT) for axis in range(len(array.shape))]
    for var, length in zip(indices, array.shape, strict=True):
        note_range(cx.builder.ranges, var, length, cx.w)
    return array.element(tuple(read(v) for v in indices))


def _own_array(
    cx: Context,
    name: str,
    view: ArrayView | StackValue,
    undo: Callable[[bool, Span | None], Block],
    operands: Versions,
    node: ast.AST,
    emitted: tuple[list[Node], int],
    first: Block,
    read: Sequence[tuple[Address, int]] | None = None,
) -> None:
    span = cx.span(node)
    made = OwnedLocal(name, view, _parts(view), undo, operands, span, read=read, emitted=emitted, frame=invert(first))
    cx.locals.add(made)


def constructed(cx: Context, name: str, node: ast.Call) -> Value | None:
    """`name = rg.zeros(…)` and other calls of constructors; None for any other call."""
    f = cx.value(node.func)
    if not (isinstance(f, Constant) and isinstance(f.value, Intrinsic) and f.value.role == intrinsics.CONSTRUCTOR):
        return None
    t: ScalarType | StructType | StackType
    shape: tuple[Length, ...]
    match f.value.__name__:
        case "copy":
            if len(node.args) != 1 or node.keywords:
                cx.fail("RG0715", "rg.copy takes an array, a struct or a number", node)
            return _make_copy(cx, name, cx.value(node.args[0]), node)
        case "stack":
            t, shape = _type_of_stack(cx, node), ()
        case "zeros_like":
            t, shape = _type_like(cx, node)
        case _:
            t, shape = _type_of_zeros(cx, node)
    return _make_zeros(cx, name, t, shape, node)


def _make_zeros(
    cx: Context, name: str, t: ScalarType | StructType | StackType, shape: Sequence[Length], node: ast.AST
) -> ArrayView | StackValue:
    """A new array or stack whose words are zero."""
    view, first = new_array(cx, name, t, shape, node)
    cx.builder.emit(first)
    place = (cx.builder.out, len(cx.builder.out))

    def undo(checked: bool, _: Span | None) -> Block:
        return cx.locals.zero_tests(view) if checked else ()

    region = view.address.region
    operands: Versions = {region: cx.builder.versions[region], **cx.builder.snapshot(*lengths_read(shape))}
    _own_array(cx, name, view, undo, operands, node, place, first)
    return view


def _type_of_stack(cx: Context, node: ast.Call) -> StackType:
    if len(node.args) != 2 or node.keywords:
        cx.fail("RG0715", "rg.stack takes a type and a capacity", node, "write `s = rg.stack(int, 100)`")
    element = element_of_stack(cx.static(node.args[0], "the type of a stack's values"))
    if element is None:
        hint = "Write int, uint, bool, fixed, lognum, complex, or a struct whose lengths are all known."
        cx.fail("RG0703", f"a stack cannot hold `{shortened(node.args[0])}`", node.args[0], hint)
    capacity = cx.static_int(node.args[1], "a stack's capacity")
    if capacity < 0:
        cx.fail("RG0703", f"a stack's capacity is an integer from 0 on, not {capacity}", node.args[1])
    return StackType(element, capacity)


def _type_like(cx: Context, node: ast.Call) -> tuple[ScalarType | StructType | StackType, tuple[Length, ...]]:
    if len(node.args) != 1:
        cx.fail("RG0715", "rg.zeros_like takes an array", node)
    model = cx.value(node.args[0])
    if isinstance(model, Lazy):
        e = cx.number(any_element(cx, model), node)
        return ScalarType(e.kind), model.shape
    if not isinstance(model, ArrayView):
        cx.fail("RG0703", f"{describe(model)} is no array", node)
    return model.element, model.shape


def _type_of_zeros(cx: Context, node: ast.Call) -> tuple[ScalarType | StructType | StackType, tuple[Length, ...]]:
    dtype = next((k.value for k in node.keywords if k.arg == "dtype"), None)
    if any(k.arg != "dtype" for k in node.keywords):
        cx.fail("RG0715", "rg.zeros takes lengths, and dtype=", node)
    t = ScalarType(FIXED) if dtype is None else element_of(cx.static(dtype, "a type"))
    if t is None and dtype is not None:
        hint = "Write `dtype=fixed`, int, bool, lognum, or a struct whose lengths are all known."
        cx.fail("RG0703", f"an array cannot hold `{shortened(dtype)}`", dtype, hint)
    assert t is not None
    given = node.args
    if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List):
        given = given[0].elts
    lengths: list[Length] = []
    for a in given:
        n = cx.value(a)
        if isinstance(n, Scalar) and (known := cx.locals.constant(n, cx.span(a))) is not None:
            n = Constant(known)
        if isinstance(n, Constant) and isinstance(n.value, tuple | list) and len(given) == 1:
            lengths += n.value
        elif isinstance(n, Constant):
            lengths.append(n.value)
        else:
            lengths.append(_run_length(cx, n, a))
    wrong = [n for n in lengths if not isinstance(n, RunLength) and (number_kind(n) is not INT or n < 0)]
    if wrong:
        cx.fail("RG0703", f"lengths are integers from 0 on, not {wrong[0]!r}", node)
    return t, tuple(n if isinstance(n, RunLength) else int(n) for n in lengths)


def _run_length(cx: Context, value: Value, node: ast.expr) -> RunLength:
    e = cx.whole(value, node)
    most = min(LARGEST, cx.w.sign - 1)
    message = f"the length `{shortened(node)}` is {{a}}, and must lie between 0 and {most}"
    checks = (InRange(e, most + 1, message, cx.span(node)),)
    return RunLength(e, most, checks, shortened(node), cx.builder.meaning(e))


def _make_copy(cx: Context, name: str, value: Value, node: ast.Call) -> Value:
    """`name = rg.copy(x)`: a new variable, array or struct with the values of x."""
    if isinstance(value, ArrayView) and (isinstance(value.element, ScalarType) or is_complex(value.element)):
        view = value
        return _make_array(cx, name, Lazy(view.shape, lambda index: element(view, index)), node)
    if isinstance(value, StructValue):
        return StructValue(value.type, {f: _make_copy(cx, f"{name}.{f}", v, node) for f, v in value.fields.items()})
    if isinstance(value, ArrayView | StackValue):
        hint = "Copy its fields or elements."
        cx.fail("RG0703", f"{describe(value)} cannot be copied whole", node, hint)
    return make_local(cx, name, value, None, node)


def _are_new(*nodes: ast.expr) -> bool:
    """Whether the values of expressions have no other name."""
    return not any(isinstance(node, ast.Name | ast.Attribute | ast.Subscript) for node in nodes)


def _parts(view: ArrayView | StackValue) -> tuple[Var | Region, ...]:
    region, base = view.address.region, view.address.base
    return (region,) if base is None else (region, base)


def _relocated(value: Value, moved: dict[tuple[Any, ...], Address]) -> Value:
    """The view with other addresses at the same offsets."""

    def address(a: Address) -> Address:
        found = moved.get((a.region, a.base, a.terms))
        return a if found is None else found.moved(a.offset)

    def made(x: Value) -> Value:
        match x:
            case Scalar(e, Address() as a, why_not):
                return Scalar(load(address(a), e.kind), address(a), why_not)
            case ArrayView() | StackValue():
                return replace(x, address=address(x.address))
        return x

    return mapped(value, made)


# -----------------------------------------------------------------------------
# Assignments `t = e`, `x, y = y, x`; `del t` and `rg.free(t, e)`.
#
# A name is assigned once: it names a constant, a view, or a new local. Assigning a permutation exchanges.


@lowers(ast.Assign)
def lower_assign(cx: Context, node: ast.Assign) -> None:
    if len(node.targets) != 1:
        cx.refuse_statement(node)
    _assign_value(cx, node.targets[0], node.value, None)


@lowers(ast.AnnAssign)
def lower_annotated(cx: Context, node: ast.AnnAssign) -> None:
    if node.value is None or not isinstance(node.target, ast.Name):
        cx.refuse_statement(node)
    _assign_value(cx, node.target, node.value, node.annotation)


@lowers(ast.Delete)
def lower_delete(cx: Context, node: ast.Delete) -> None:
    for target in node.targets:
        _delete_name(cx, target)


def _assign_value(cx: Context, target: ast.expr, value: ast.expr, annotation: ast.expr | None) -> None:
    match target, value:
        case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), (ast.Tuple(elts=values) | ast.List(elts=values))):
            if len(targets) != len(values):
                cx.fail("RG0703", f"{len(targets)} names for {len(values)} values", target)
            left, right = [ast.unparse(x) for x in targets], [ast.unparse(x) for x in values]
            if sorted(left) == sorted(right):
                permute(cx, targets, values)
                return
            held = next((x for x in targets if not isinstance(x, ast.Name) or x.id in cx.scope.names), None)
            if held is not None:
                hint = "A tuple on the left exchanges the same variables, `x, y = y, x`. Change each variable by a statement of its own: `x += y`, then `x, y = y, x`."
                cx.fail("RG0706", f"`{shortened(held)}` holds a value already", held, hint)
            for x, v in zip(targets, values, strict=True):
                _assign_value(cx, x, v, None)
            return
        case ast.Name(id=name), _:
            pass
        case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), _):
            found = cx.value(value)
            named = isinstance(value, ast.Name | ast.Attribute | ast.Subscript)
            if isinstance(found, ArrayView) and is_known(found.shape) and named:
                if len(targets) != found.shape[0]:
                    cx.fail("RG0703", f"{len(targets)} names for {found.shape[0]} values", target)
                for i, x in enumerate(targets):
                    part = ast.Subscript(value, ast.Constant(i), ast.Load())
                    _assign_value(cx, x, ast.fix_missing_locations(ast.copy_location(part, value)), None)
                return
            if not isinstance(found, Constant) and not (isinstance(found, StructValue) and found.type.is_tuple):
                way = None if named else f"Name the value first: `t = {shortened(value)}`, and then `… = t`."
                cx.fail("RG0703", f"`{shortened(value)}` is {describe(found)}, not several values", value, way)
            _unpack(cx, target, found, value)
            return
        case _:
            hint = _instead(cx, target, cx.value(target), value)
            hint += "; to exchange two places, write `x, y = y, x`"
            cx.fail("RG0706", f"`{shortened(target)}` holds a value already", target, hint)
    if name in cx.scope.names:
        cx.fail("RG0706", f"`{name}` holds a value already", target, _instead(cx, target, cx.scope.names[name], value))
    if isinstance(value, ast.Call):
        if _pops(cx, value):
            _pop_new(cx, name, value)
            return
        made = constructed(cx, name, value)
        if made is not None:
            cx.scope.names[name] = made
            return
    found = cx.value(value)
    kind: Kind | None = None
    if annotation is not None:
        wanted = scalar_of(cx.static(annotation, "a type"))
        if wanted is None:
            cx.fail("RG0703", "a local variable is annotated as int, bool, fixed or lognum", annotation)
        kind = wanted.kind
        _need_kind(cx, name, found, kind, annotation, value)
    cx.scope.names[name] = make_local(cx, name, found, kind, value, fixed_name=name not in cx.changed)


def _need_kind(cx: Context, name: str, found: Value, kind: Kind, annotation: ast.expr, value: ast.expr) -> None:
    """The elements of an array are of the kind that the annotation names: they are not converted."""
    match found:
        case Lazy(shape):
            own = kind if is_empty(shape) else cx.arithmetic.expression(any_element(cx, found)).kind
        case ArrayView(ScalarType(own)):
            pass
        case ArrayView() | StructValue() | StackValue():
            message = f"`{name}` is {describe(found)}, and its annotation is the type of a number"
            cx.fail("RG0703", message, annotation, f"Write `{name} = {shortened(value)}`.")
        case _:
            return
    if own != kind:
        function = "rg.floor" if kind == INT and own.is_fixed else shortened(annotation)
        hint = f"Write `{name} = {function}({shortened(value)})`."
        message = f"the elements of `{name}` are {ScalarType(own)}, and its annotation is {ScalarType(kind)}"
        cx.fail("RG0703", message, annotation, hint)


def _unpack(cx: Context, target: ast.expr, found: Value, node: ast.expr) -> None:
    """`x, (y, z) = e`: a variable for each number, and a name for anything else."""
    if not isinstance(target, ast.Tuple | ast.List) or not isinstance(found, StructValue) or not found.type.is_tuple:
        bind_name(cx, target, found, target)
        return
    if len(target.elts) != len(found.fields):
        cx.fail("RG0703", f"{len(target.elts)} names for {len(found.fields)} values", target)
    for x, v in zip(target.elts, found.fields.values(), strict=True):
        if is_number(v) and isinstance(x, ast.Name) and x.id not in cx.scope.names:
            v = make_local(cx, x.id, v, None, node)  # noqa: PLW2901
        _unpack(cx, x, v, node)


def _pops(cx: Context, call: ast.Call) -> bool:
    """Whether the call is `rg.pop(stack)`."""
    if len(call.args) != 1 or call.keywords or not isinstance(call.func, ast.Name | ast.Attribute):
        return False
    callee = cx.value(call.func)
    return isinstance(callee, Constant) and callee.value is intrinsics.pop


def _pop_new(cx: Context, name: str, call: ast.Call) -> None:
    """`x = rg.pop(s)`: a new variable or struct that is zero, and takes the top of the stack."""
    s = location(cx, call.args[0])
    if not isinstance(s, StackValue):
        cx.fail("RG0703", f"rg.pop on {describe(s)}, which is no stack", call)
    cx.scope.names[name] = _make_zero(cx, name, s.type.element, call)
    target = ast.copy_location(ast.Name(name, ast.Load()), call)
    cx.perform(intrinsics.pop, ast.copy_location(ast.Call(call.func, [call.args[0], target], []), call))


def _make_zero(cx: Context, name: str, t: Type, node: ast.Call) -> Value:
    """A new variable, array or struct all of whose words are zero."""
    match t:
        case ScalarType(kind):
            return make_local(cx, name, Constant(1 if kind is Kind.LOGNUM else 0), kind, node)
        case ArrayType(element, shape):
            return _make_zeros(cx, name, element, shape, node)
        case StackType():
            return _make_zeros(cx, name, t, (), node)
        case StructType(_, fields):
            return StructValue(t, {f: _make_zero(cx, part_name(name, t, f), inner, node) for f, inner in fields})
    raise TypeError(t)


def bind_name(cx: Context, target: ast.expr, value: Value, node: ast.AST) -> None:
    """Name a value, or the items of a constant; no local is allocated."""
    match target:
        case ast.Name(id=name):
            if name in cx.scope.names:
                cx.fail("RG0706", f"`{name}` holds a value already", target)
            cx.scope.names[name] = value
        case ast.Tuple(elts=targets) if isinstance(value, StructValue) or (
            isinstance(value, Constant) and isinstance(value.value, tuple | list)
        ):
            items = cx.items(value, node)
            if len(targets) != len(items):
                cx.fail("RG0703", f"{len(targets)} names for {len(items)} values", target)
            for x, v in zip(targets, items, strict=True):
                bind_name(cx, x, v, node)
        case _:
            hint = "A dict gives its keys; `.items()` gives keys and values." if isinstance(target, ast.Tuple) else None
            message = f"`{shortened(target)}` is no name for the values of a loop"
            cx.fail("RG0701", message, target, hint)


def _delete_name(cx: Context, target: ast.expr) -> None:
    if not isinstance(target, ast.Name):
        cx.fail("RG0701", "`del` frees a variable by its name", target)
    name = target.id
    if name not in cx.scope.names:
        found = cx.value(target)  # refuses an unknown or freed name
        message = f"`{name}` is {describe(found)} from outside this function, and cannot be freed"
        cx.fail("RG0709", message, target, "Remove the `del`.")
    value = cx.scope.names[name]
    named = (m for m in cx.locals.owned if m.name == name or m.name.startswith((f"{name}.", f"{name}[")))
    own = [m for m in named if _belongs(m, value)]
    if not own:
        if isinstance(value, Constant):
            del cx.scope.names[name]
            return
        message = f"`{name}` was not made in this function, and cannot be freed"
        cx.fail("RG0709", message, target, "Remove the `del`.")
    for made in reversed(own):
        cx.locals.release(made, cx.span(target))
    cx.scope.free(name, cx.span(target))


@performs(intrinsics.free)
def free(cx: Context, name: str, call: ast.Call) -> None:
    """`rg.free(x, e)`: subtract e from x, which must then be zero, and free x; element by element for an array, field by field for a struct."""
    target, given = call.args
    if not isinstance(target, ast.Name):
        cx.fail("RG0701", "rg.free takes a variable by its name", target)
    value = location(cx, target)
    made = [next((m for m in cx.locals.owned if m.value is part), None) for part in parts(value)]
    own = [
        m
        for m in made
        if m is not None and (m.name == target.id or m.name.startswith((f"{target.id}.", f"{target.id}[")))
    ]
    if not own or len(own) < len(made) or not all(map(_is_numeric, parts(value))):
        hint = f"`del {target.id}` frees what was made here." if own else None
        if isinstance(value, StackValue):
            hint = f"Empty it by `rg.pop`, and write `del {target.id}`: a stack is freed when it is empty."
            cx.fail("RG0709", f"`{target.id}` is a stack, and rg.free takes numbers", target, hint)
        what = "is no number or array of numbers" if own else "is no variable that was made in this function"
        cx.fail("RG0709", f"`{target.id}` {what}", target, hint)
    places_of_value = {place for place in places(value) if isinstance(place, Var)}
    freed = [*zip(own, parts(value), _parts_given(cx, value, given), strict=True)]
    for local, part, e in reversed(freed):
        if isinstance(part, ArrayView):
            _free_array(cx, local, part, e, given, call)
        else:
            assert isinstance(part, Scalar)
            _free_number(cx, local, part, cx.number(e, call, part.kind), places_of_value, call)
    cx.scope.free(target.id, cx.span(call))


def _is_numeric(x: Value) -> bool:
    """Whether a value is a number or an array of numbers."""
    return isinstance(x, Scalar) or (isinstance(x, ArrayView) and isinstance(x.element, ScalarType))


def _parts_given(cx: Context, x: Value, given: ast.expr) -> list[Value]:
    """For each part of x its part of the value that is given for x."""
    value = cx.value(given)
    if not isinstance(x, StructValue):
        return [value]
    if is_complex(x.type) and (
        isinstance(value, Constant | Scalar) or (isinstance(value, StructValue) and is_complex(value.type))
    ):
        value = cx.guarded(given, cx.arithmetic.complex.of_type, x.type, value)
    if not isinstance(value, StructValue) or value.type != x.type:
        cx.fail("RG0703", f"{describe(value)} is given for {describe(x)}", given)
    return list(parts(value))


def _free_number(cx: Context, made: OwnedLocal, x: Scalar, e: E, changed: Collection[Var], call: ast.Call) -> None:
    """Free one number by its value.

    `changed`: the variables that the statement frees, which the value must not read.
    """
    assert isinstance(x.place, Var)
    if not variables(e).isdisjoint(changed):
        cx.fail("RG0704", f"the value that `{made.name}` is said to have depends on it", call)
    known = made.history == [] and made.initial == e and made.operands == cx.builder.snapshot(e) and not made.gone
    tested = not known and not cx.locals.is_trusted(made)
    if tested:
        cx.locals.test_allocation(made)
    cx.locals.remove(made, release(cx.builder.temporaries(), x.place, e, tested))


def _free_array(cx: Context, made: OwnedLocal, x: ArrayView, value: Value, given: ast.expr, call: ast.Call) -> None:
    assert isinstance(x.element, ScalarType)
    e = cx.stored(value, given)
    with cx.builder.collect() as nodes:
        update_array(cx, x, OPPOSITE[made_by(x.element.kind)], e, call)
    tested = not cx.locals.is_trusted(made)
    if tested:
        cx.locals.test_allocation(made)
    tests = cx.locals.zero_tests(x) if tested else ()
    cx.locals.remove(made, (*nodes, *tests, *cx.locals.given_back(made)))


def _belongs(made: OwnedLocal, value: Value) -> bool:
    """Whether a local is a value or a field of it."""
    if made.value is value:
        return True
    return isinstance(value, StructValue) and any(_belongs(made, inner) for inner in value.fields.values())


#: kind -> the update that takes any value, and its effect
_CHANGES = {Kind.BOOL: ("^=", "flip it where that is true"), Kind.LOGNUM: ("*=", "multiply it by that")}


def _instead(cx: Context, target: ast.expr, held: Value, value: ast.expr) -> str:
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
    if reads(value) and cx.scope.loops:
        return in_loop(f"{name} = {shortened(value)}")
    if reads(value) or kind is None or isinstance(value, ast.Call):
        return f"choose another name for the new value: `t = {shortened(value)}`"
    sign, effect = _CHANGES.get(kind, ("+=", "add that to it"))
    return f"write `{name} {sign} {shortened(value)}` to {effect}, or choose another name for the new value"
