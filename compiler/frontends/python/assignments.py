"""Statements that the language has not, with the statement to write in their place."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from retrograd.compiler.frontends.owned_locals import OwnedLocal, words_at
from retrograd.compiler.frontends.python.allocation import constructed, make_local
from retrograd.compiler.frontends.python.context import Context, lowers, performs
from retrograd.compiler.frontends.python.indexing import MADE_BY
from retrograd.compiler.frontends.python.operators import OPERATORS
from retrograd.compiler.frontends.python.source import shortened
from retrograd.compiler.frontends.python.updates import (
    distinct,
    independent,
    is_update,
    location,
    lower_update,
    refuse_other_names,
    register,
    sides,
    update_array,
)
from retrograd.compiler.ir.expressions import Address, const, difference_of, interval, read, variables
from retrograd.compiler.ir.flatten import Temporaries, release
from retrograd.compiler.ir.instruction_selection import OPPOSITE
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Check,
    Const,
    Delocal,
    If,
    Kind,
    Local,
    Op,
    Operand,
    Test,
    Var,
    invert,
)
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.arithmetic import element, number_kind
from retrograd.compiler.language.types import ScalarType, scalar_of
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
    scalars,
)
from retrograd.isa.table import TABLE

# -----------------------------------------------------------------------------
# Bijections: exchanges, rotations, negations, stacks.
#
# swap, cswap, neg, flip: their own inverses      rot ↔ irot, rol ↔ ror, push ↔ pop
# x *= −1; n *= c of an odd c; n ^= n << k; u ^= u >> k of a uint
# erase: x := 0, which has no inverse

INT, UINT, FIXED, BOOL = Kind.INT, Kind.UINT, Kind.FIXED, Kind.BOOL


def update_one_to_one(cx: Context, node: ast.AugAssign) -> bool:
    """An augmented assignment that maps words one to one though it reads its target; False for any other.

    x *= −1, x /= −1       the negative
    n *= c, c odd          the product mod 2^W, undone by the inverse of c mod 2^W
    n ^= n << k, k ≥ 1     undone by n ^= n << k ^ n << 2k ^ …
    u ^= u >> k, k ≥ 1     undone by u ^= u >> k ^ u >> 2k ^ …, of a uint: `>>` of an int copies the sign
    """
    match node.op, node.value:
        case ast.Mult() | ast.Div(), _:
            found = cx.value(node.value)
            if not isinstance(found, Constant) or number_kind(found.value) not in (INT, FIXED):
                return False
            place = location(cx, node.target)
            kinds = {x.kind for x in _numbers(place)}
            if (
                found.value == -1
                and kinds
                and kinds <= {INT, UINT, FIXED}
                and (kinds not in ({INT}, {UINT}) or isinstance(node.op, ast.Mult))
            ):
                _elementwise(cx, "neg", place, node, node.target)
                return True
            if isinstance(node.op, ast.Div) or kinds not in ({INT}, {UINT}) or number_kind(found.value) is not INT:
                return False
            factor = int(found.value)
            if factor % 2 == 0:
                hint = f"make a new variable, `t = {shortened(node.target)} * {factor}`"
                message = f"`{shortened(node)}` forgets a bit of `{shortened(node.target)}`: only odd factors have an inverse mod 2^W"
                cx.fail("RG0703", message, node, hint)
            _change_words(cx, place, node, lambda t, d: _multiplied(cx, t, d, factor))
            return True
        case ast.BitXor(), ast.BinOp(left=ast.expr() as left, op=ast.LShift() | ast.RShift() as shift, right=right) if (
            ast.unparse(left) == ast.unparse(node.target)
        ):
            places = cx.value(right)
            if not isinstance(places, Constant) or number_kind(places.value) is not INT or places.value < 1:
                return False
            place = location(cx, node.target)
            kinds = {x.kind for x in _numbers(place)}
            if kinds not in ({INT}, {UINT}):
                return False
            count, name = int(places.value), "shl" if isinstance(shift, ast.LShift) else "shr"
            if name == "shr" and kinds == {INT}:
                s = shortened(node.target)
                message = (
                    f"`{shortened(node)}` forgets bits of `{s}`: `>>` of an int copies its sign, and the copies cancel"
                )
                hint = f"declare `{s}` a `uint`, whose `>>` fills with zeros: then this statement has an inverse"
                cx.fail("RG0704", message, node, hint)
            _change_words(cx, place, node, lambda t, d: _xored_with_shifted(cx, t, d, name, count))
            return True
    return False


def _change_words(cx: Context, place: Value, node: ast.AugAssign, change: Callable[[Temporaries, Var], Block]) -> None:
    """Emit the statements that change a number, or each element of an array, in a register."""
    if isinstance(place, ArrayView):
        cx.over_elements(place.shape, lambda index: _change_words(cx, element(place, index), node, change))
        return
    assert isinstance(place, Scalar)
    assert place.place is not None
    t = cx.builder.temporaries()
    independent(cx, t, [(place.place, node.target)], [], node)
    nodes = change(t, register(cx, t, place.place, place.kind))
    cx.builder.emit(t.wrap(nodes), stores=words_at(place.place))


def _multiplied(cx: Context, t: Temporaries, d: Var, factor: int) -> Block:
    """p += d·c; d −= p·c⁻¹, which is zero; d, p = p, d"""
    w, product = cx.builder.w, t.fresh("product", d.kind)
    back = pow(factor, -1, 1 << w.width)
    return (
        t.op("mul", "add", product, d, Const(w.wrap(factor))),
        t.op("mul", "sub", d, product, Const(back)),
        Op(TABLE["swap"], d, product, None, 0, t.span),
    )


def _xored_with_shifted(cx: Context, t: Temporaries, d: Var, name: str, count: int) -> Block:
    """s ^= d << k; d ^= s; s ^= d << k ^ d << 2k ^ …, which is zero; `shr` in place of `shl` alike"""
    shifted = t.fresh("shifted", d.kind)
    first = t.op(name, "xor", shifted, d, Const(count))
    later = (t.op(name, "xor", shifted, d, Const(k)) for k in range(2 * count, cx.builder.w.width, count))
    return (first, t.op("mov", "xor", d, shifted), first, *later) if count < cx.builder.w.width else ()


def permute(cx: Context, targets: Sequence[ast.expr], values: Sequence[ast.expr]) -> None:
    """`x, y, z = y, z, x`, as exchanges."""
    wanted = [ast.unparse(v) for v in values]
    nodes = {ast.unparse(x): x for x in targets}
    if len(nodes) != len(targets):
        cx.fail("RG0704", "the same variable is written twice", targets[0])
    refuse_other_names(cx, targets, [location(cx, x) for x in targets])
    names = list(nodes)
    #: the variable whose former value is at each target
    holds = list(names)
    for i, name in enumerate(names):
        j = holds.index(wanted[i])
        if i != j:
            _swap_places(cx, nodes[name], nodes[names[j]])
            holds[i], holds[j] = holds[j], holds[i]


@performs(intrinsics.swap)
def swap(cx: Context, name: str, call: ast.Call) -> None:
    """`rg.swap(x, y)`."""
    _swap_places(cx, *call.args)


def _swap_places(cx: Context, x: ast.expr, y: ast.expr) -> None:
    _exchange(cx, location(cx, x), location(cx, y), x)


def _exchange(cx: Context, x: Value, y: Value, node: ast.AST) -> None:
    """x, y = y, x."""
    match x, y:
        case Scalar(_, Var() as a), Scalar(_, Var() as b) if x.kind is y.kind:
            if a is not b:
                cx.builder.emit((Op(TABLE["swap"], a, b, None, 0, cx.span(node)),))
        case Scalar(_, place_a), Scalar(_, place_b) if x.kind is y.kind:
            t = cx.builder.temporaries()
            assert place_a is not None
            assert place_b is not None
            independent(cx, t, [(place_a, node), (place_b, node)], [], node)
            if isinstance(place_b, Var):
                place_a, place_b = place_b, place_a
            assert isinstance(place_b, Address)
            if isinstance(place_a, Var):
                cx.builder.emit(t.wrap((t.memory("exch", place_a, place_b),)), stores=words_at(place_b))
                return
            held = t.fresh("held", x.kind)
            first, second = t.memory("exch", held, place_a), t.memory("exch", held, place_b)
            _exchange_words(cx, t, place_a, place_b, (first, second, first), node)
        case StructValue(t1, fields), StructValue(t2, others) if t1 == t2:
            for name in fields:
                _exchange(cx, fields[name], others[name], node)
        case ArrayView(), ArrayView() if x.shape == y.shape and x.element == y.element:
            cx.over_elements(x.shape, lambda index: _exchange(cx, element(x, index), element(y, index), node))
        case _:
            code = "RG0712" if isinstance(x, ArrayView) and isinstance(y, ArrayView) else "RG0703"
            message = f"{describe(x)} and {describe(y)} are exchanged"
            cx.fail(code, message, node, "Exchange two places of one type and shape.")


def _exchange_words(cx: Context, t: Temporaries, x: Address, y: Address, nodes: Block, node: ast.AST) -> None:
    """Exchange two words of memory by three exchanges, which would lose the word where both are the same."""
    if x.region is y.region:
        distance = x.minus(y)
        if distance == 0:
            return
        difference = difference_of(x, y, cx.builder.w)
        bounds = interval(difference, cx.builder.ranges)
        if distance is None and (bounds is None or bounds[0] <= 0 <= bounds[1]):
            a, b = sides(difference)
            test = Test("ne", t.operand(a), t.operand(b))
            nodes = (If(test, nodes, (), test, cx.span(node)),)
    cx.builder.emit(t.wrap(nodes), stores=words_at(x, y))


@performs(intrinsics.neg, intrinsics.flip, intrinsics.erase)
def change(cx: Context, name: str, call: ast.Call) -> None:
    """`rg.neg(x)`, `rg.flip(x)`, `rg.erase(x)`."""
    _elementwise(cx, name, location(cx, call.args[0]), call, call.args[0])


def _elementwise(cx: Context, name: str, x: Value, call: ast.AST, target: ast.expr) -> None:
    if isinstance(x, ArrayView):
        cx.over_elements(x.shape, lambda index: _elementwise(cx, name, element(x, index), call, target))
        return
    if isinstance(x, StructValue):
        for inner in x.fields.values():
            _elementwise(cx, name, inner, call, target)
        return
    if not isinstance(x, Scalar) or x.place is None:
        cx.fail("RG0703", f"rg.{name} of {describe(x)}", call)
    t = cx.builder.temporaries()
    independent(cx, t, [(x.place, target)], [], call)
    d = register(cx, t, x.place, x.kind)
    span = cx.span(call)
    match name, x.kind:
        case "neg", (Kind.INT | Kind.UINT | Kind.FIXED):
            op = Op(TABLE["neg"], d, None, None, 0, span)
        case "neg", Kind.LOGNUM:
            op = t.op("lmov", "mul", d, Const(cx.builder.w.sign))
        case "flip", Kind.BOOL:
            op = t.op("mov", "xor", d, Const(1))
        case "flip", (Kind.INT | Kind.UINT):
            op = Op(TABLE["not"], d, None, None, 0, span)
        case "erase", _:
            op = Op(TABLE["erase"], d, None, None, 0, span)
        case _:
            other = {BOOL: f"write `rg.flip({shortened(target)})`"}.get(x.kind) if name == "neg" else None
            cx.fail("RG0703", f"rg.{name} is not defined for {x.kind.value}", call, other)
    cx.builder.emit(t.wrap((op,)), stores=words_at(x.place))
    if name == "erase" and isinstance(x.place, Var):
        cx.locals.erased(x.place)


@performs(intrinsics.rot, intrinsics.irot)
def rotate(cx: Context, name: str, call: ast.Call) -> None:
    """`rg.rot(x, y, t)`, `rg.irot(x, y, t)`."""
    x, y = location(cx, call.args[0]), location(cx, call.args[1])
    _rotate_values(cx, name, x, y, cx.value(call.args[2]), call)


def _rotate_values(cx: Context, name: str, x: Value, y: Value, angle: Value, call: ast.Call) -> None:
    if any(isinstance(v, ArrayView | Lazy) for v in (x, y, angle)):
        shapes = [v.shape for v in (x, y) if isinstance(v, ArrayView)]
        if len(shapes) != 2 or shapes[0] != shapes[1]:
            cx.fail("RG0712", f"rg.{name} of {describe(x)} and {describe(y)}", call)
        cx.over_elements(
            shapes[0], lambda i: _rotate_values(cx, name, element(x, i), element(y, i), element(angle, i), call)
        )
        return
    if not (isinstance(x, Scalar) and isinstance(y, Scalar) and x.kind is y.kind is FIXED):
        message = f"rg.{name} of {describe(x)} and {describe(y)}: it turns two fixed numbers"
        cx.fail("RG0703", message, call)
    e = cx.number(angle, call, FIXED)
    t = cx.builder.temporaries()
    assert x.place is not None
    assert y.place is not None
    independent(cx, t, [(x.place, call.args[0]), (y.place, call.args[1])], [e], call)
    distinct(cx, t, x, y, call)
    turn = t.operand(e)
    d, a = (register(cx, t, p, FIXED) for p in (x.place, y.place) if p is not None)
    op = Op(TABLE[name], d, a, turn, 0, cx.span(call))
    cx.builder.emit(t.wrap((op,)), stores=words_at(x.place, y.place))


@performs(intrinsics.cswap)
def swap_if(cx: Context, name: str, call: ast.Call) -> None:
    """`rg.cswap(c, x, y)`: x, y = y, x if c."""
    args = call.args
    c = cx.condition(args[0])
    x, y = location(cx, args[1]), location(cx, args[2])
    if isinstance(x, Scalar) and isinstance(y, Scalar) and x.kind is y.kind:
        t = cx.builder.temporaries()
        assert x.place is not None
        assert y.place is not None
        independent(cx, t, [(x.place, args[1]), (y.place, args[2])], [c], call)
        bit = t.operand(c)
        if isinstance(x.place, Var) and isinstance(y.place, Var) and x.place is not y.place:
            cx.builder.emit(t.wrap((_cswap_op(cx, x.place, y.place, bit),)))
            return
    test_t = cx.builder.temporaries()
    test = test_t.test(c)
    with cx.block() as inner:
        _exchange(cx, x, y, call)
    swapped = If(test, tuple(inner), (), test, cx.span(call))
    cx.builder.emit(test_t.wrap((swapped,)), made_of_blocks=True)


def _cswap_op(cx: Context, x: Var, y: Var, bit: Operand) -> Op:
    opcode = TABLE["cswap"]
    # The control is the operand that the instruction only reads.
    written = [p for p in ("d", "a", "b") if p in opcode.writes]
    control = next(p for p in ("d", "a", "b") if p not in written)
    places: dict[str, Operand] = {written[0]: x, written[1]: y, control: bit}
    return Op(opcode, places["d"], places["a"], places["b"], 0, cx.builder.span)


@performs(intrinsics.rol, intrinsics.ror)
def roll(cx: Context, name: str, call: ast.Call) -> None:
    """`rg.rol(x, k)`, `rg.ror(x, k)`."""
    args = call.args
    x = location(cx, args[0])
    if not isinstance(x, Scalar) or x.kind not in (INT, UINT) or x.place is None:
        hint = "Multiply a fixed by a power of two in a new variable, `t = x * 8`."
        message = f"rg.{name} of {describe(x)}: it rotates the bits of an int or a uint"
        cx.fail("RG0703", message, call, hint if isinstance(x, Scalar) and x.kind is FIXED else None)
    k = cx.integer(args[1])
    t = cx.builder.temporaries()
    independent(cx, t, [(x.place, args[0])], [k], call)
    amount = t.operand(k)
    d = register(cx, t, x.place, x.kind)
    op = Op(TABLE[name], d, amount, None, 0, cx.span(call))
    cx.builder.emit(t.wrap((op,)), stores=words_at(x.place))


@performs(intrinsics.push, intrinsics.pop)
def push(cx: Context, name: str, call: ast.Call) -> None:
    """`rg.push(S, x)`: S[count], x = x, S[count]; count += 1, where S is zero from count on. `rg.pop` is the inverse."""
    args = call.args
    s, x = location(cx, args[0]), location(cx, args[1])
    if not isinstance(s, StackValue):
        kind = x.kind.value if isinstance(x, Scalar) else "fixed"
        hint = f"make one: `s = rg.stack({kind}, 100)`"
        if isinstance(x, StackValue):
            hint = f"The stack comes first: write `rg.{name}({shortened(args[1])}, {shortened(args[0])})`."
        cx.fail("RG0703", f"rg.{name} on {describe(s)}, which is no stack", call, hint)
    if not isinstance(x, Scalar) or x.place is None or x.kind is not s.type.element.kind:
        way = None
        if isinstance(x, StructValue):
            field = f"{shortened(args[1])}.{next(iter(x.fields))}"
            way = f"{name} its fields one after the other, `rg.{name}({shortened(args[0])}, {field})`; a pop has the opposite order"
        cx.fail("RG0703", f"rg.{name} of {describe(x)} on a stack of {s.type.element}", call, way)
    span = cx.span(call)
    t = cx.builder.temporaries()
    independent(cx, t, [(x.place, args[1])], [e for e, _ in s.address.terms], call)
    if isinstance(x.place, Address) and x.place.region is s.address.region:
        cx.fail("RG0705", f"`{shortened(args[1])}` lies in the stack itself", call)
    held = register(cx, t, x.place, x.kind)
    count = Var("count", INT, span)
    inner, outer = cx.builder.temporaries(), cx.builder.temporaries()
    top = s.address.moved(1).shifted(read(count), 1)
    move = inner.wrap((inner.memory("exch", held, top),))
    full = f"the stack `{shortened(args[0])}` is {{full}}"
    room = Check(Test("ltu", count, Const(s.type.capacity)), "RG0806", full, span)
    take = outer.memory("exch", count, s.address)
    # The word above the top is zero. So x is zero after a push, and must be zero before a pop.
    message = f"`{shortened(args[1])}` is {{a}}, and must be zero to take the top of the stack `{shortened(args[0])}`"
    empty = Check(Test("eq", held, ZERO), "RG0802", message, span)
    sequence: Block = (take, room, *move, empty, outer.op("mov", "add", count, Const(1)), take)
    nodes = outer.wrap((Local(count, False, span), *sequence, Delocal(count, False, span)))
    cx.builder.emit(t.wrap(nodes if name == "push" else invert(nodes)), stores=words_at(x.place))


def _numbers(place: Value) -> list[Scalar]:
    """The numbers of a location: of an array one element."""
    if isinstance(place, ArrayView):
        return [*scalars(element(place, tuple(const(0, INT) for _ in place.shape)))]
    return [*scalars(place)]


# -----------------------------------------------------------------------------
# Assignments `t = e`, `x, y = y, x`; `del t` and `rg.free(t, e)`.
#
# A name is assigned once: it names a constant, a view, or a new local. Assigning a permutation exchanges.


@lowers(ast.AugAssign)
def lower_augmented(cx: Context, node: ast.AugAssign) -> None:
    if not update_one_to_one(cx, node):
        lower_update(cx, node)


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
        case ast.Tuple(), _:
            found = cx.value(value)
            if not isinstance(found, Constant) and not (isinstance(found, StructValue) and found.type.is_tuple):
                cx.fail("RG0703", f"`{shortened(value)}` is {describe(found)}, not several values", value)
            _unpack(cx, target, found, value)
            return
        case _:
            hint = _instead(target, cx.value(target), value)
            hint += "; to exchange two places, write `x, y = y, x`"
            cx.fail("RG0706", f"`{shortened(target)}` holds a value already", target, hint)
    if name in cx.scope.names:
        cx.fail("RG0706", f"`{name}` holds a value already", target, _instead(target, cx.scope.names[name], value))
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
    cx.scope.names[name] = make_local(cx, name, found, kind, value, fixed_name=name not in cx.changed)


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
    """`x = rg.pop(s)`: a new variable that is zero, and takes the top of the stack."""
    s = location(cx, call.args[0])
    if not isinstance(s, StackValue):
        cx.fail("RG0703", f"rg.pop on {describe(s)}, which is no stack", call)
    kind = s.type.element.kind
    zero = Constant(1 if kind is Kind.LOGNUM else 0)
    cx.scope.names[name] = make_local(cx, name, zero, kind, call)
    target = ast.copy_location(ast.Name(name, ast.Load()), call)
    push(cx, "pop", ast.copy_location(ast.Call(call.func, [call.args[0], target], []), call))


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
    """`rg.free(x, e)`: subtract e from x, which must then be zero, and free x; element by element for an array."""
    target, given = call.args
    if not isinstance(target, ast.Name):
        cx.fail("RG0701", "rg.free takes a variable by its name", target)
    value = location(cx, target)
    made = next((m for m in cx.locals.owned if m.name == target.id and m.value is value), None)
    numbers = isinstance(value, Scalar) or (isinstance(value, ArrayView) and isinstance(value.element, ScalarType))
    if made is None or not numbers:
        hint = f"`del {target.id}` frees what was made here." if made is not None else None
        if isinstance(value, StackValue):
            hint = f"Empty it by `rg.pop`, and write `del {target.id}`: a stack is freed when it is empty."
            cx.fail("RG0709", f"`{target.id}` is a stack, and rg.free takes numbers", target, hint)
        what = (
            "is no number or array of numbers" if made is not None else "is no variable that was made in this function"
        )
        cx.fail("RG0709", f"`{target.id}` {what}", target, hint)
    if isinstance(value, ArrayView):
        _free_array(cx, made, value, given, call)
    else:
        assert isinstance(value, Scalar)
        _free_number(cx, made, value, given, call)
    cx.scope.free(target.id, cx.span(call))


def _free_number(cx: Context, made: OwnedLocal, x: Scalar, given: ast.expr, call: ast.Call) -> None:
    assert isinstance(x.place, Var)
    e = cx.number(cx.value(given), call, x.kind)
    if x.place in variables(e):
        cx.fail("RG0704", f"the value that `{made.name}` is said to have depends on it", call)
    known = made.history == [] and made.initial == e and made.operands == cx.builder.snapshot(e) and not made.gone
    tested = not known and not cx.locals.is_trusted(made)
    if tested:
        cx.locals.test_allocation(made)
    cx.locals.remove(made, release(cx.builder.temporaries(), x.place, e, tested))


def _free_array(cx: Context, made: OwnedLocal, x: ArrayView, given: ast.expr, call: ast.Call) -> None:
    assert isinstance(x.element, ScalarType)
    e = cx.stored(cx.value(given), given)
    with cx.builder.collect() as nodes:
        update_array(cx, x, OPPOSITE[MADE_BY[x.element.kind]], e, call)
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
