"""Alias analysis: a statement may not read a location that it changes.

A program is reversible because an update reads nothing that it writes. An overlap that the compiler can see is refused; where an
index decides, the program tests it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from retrograd.compiler.frontends.python.context import Context
from retrograd.compiler.frontends.python.operators import OPERATORS
from retrograd.compiler.frontends.python.source import shortened
from retrograd.compiler.ir.expressions import (
    Address,
    E,
    add,
    apply,
    are_apart,
    const,
    difference_of,
    indices_of,
    interval,
    loads,
    read,
    sub,
    variables,
    walk,
)
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import Check, Const, Kind, Local, Node, Test, Var
from retrograd.compiler.language.arithmetic import broadcast, element
from retrograd.compiler.language.types import bound, is_complex, is_empty, note_range
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
    scalars,
    type_of,
)

INT = Kind.INT


def location(cx: Context, node: ast.expr) -> Value:
    """The location that an expression names. Raises RG0709 if it cannot be changed."""
    value = cx.value(node)
    _require_writable(cx, value, node)
    return value


def _require_writable(cx: Context, value: Value, node: ast.AST) -> None:
    match value:
        case Scalar(_, place, why_not) if place is None or why_not is not None:
            reason, _, way = (why_not or "it is an expression").partition("; ")
            cx.fail("RG0709", f"`{shortened(node)}` cannot be changed: {reason}", node, way or None)
        case ArrayView(why_not=why_not) | StackValue(why_not=why_not) if why_not is not None:
            cx.fail("RG0709", f"`{shortened(node)}` cannot be changed: {why_not}", node)
        case StructValue(_, fields):
            for inner in fields.values():
                _require_writable(cx, inner, node)
        case Constant(value=[] | ()):
            hint = "A list does not grow: keep values in an array, `h = rg.zeros(n)`, or on a stack, `rg.push(s, x)`."
            cx.fail("RG0709", f"`{shortened(node)}` is an empty list, and cannot be changed", node, hint)
        case Constant() | Lazy() | FunctionValue() | RoutineValue():
            cx.fail("RG0709", f"`{shortened(node)}` is {describe(value)}, and cannot be changed", node)
        case _:
            pass


def refuse_other_names(cx: Context, targets: Sequence[ast.expr], values: Sequence[Value]) -> None:
    """Refuse that targets get new values where another name stands for one of the old ones.

    `p += v` of a struct and `p, q = q, p` bind names anew in Python, and another name keeps the old object. `b.place += v` changes the
    struct b: other names of b have the new value, too, and other names of the former `b.place` keep that.
    """
    own = {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    for target, value in zip(targets, values, strict=True):
        for name, other in cx.scope.names.items():
            if name not in own and _is_other_name(other, value, isinstance(target, ast.Name)):
                shown = shortened(target)
                message = f"`{name}` is another name for words of `{shown}`, which changes here"
                hint = f"Copy what shall stay, `{name} = rg.copy(…)`, or change fields and elements: every name has their new values."
                cx.fail("RG0731", message, target, hint)


def register(cx: Context, t: Temporaries, place: Var | Address, kind: Kind, name: str = "") -> Var:
    """A variable with the value of the place: the place itself, or a temporary that a memory word is exchanged into."""
    if isinstance(place, Var):
        return place
    held = t.fresh(name or place.region.name_of_word, kind)
    t.compute.append(t.memory("exch", held, place))
    return held


def refuse_overlap(cx: Context, t: Temporaries, e: E, where: Var | Address, node: ast.AST, target: ast.AST) -> None:
    """Refuse an expression that reads a location, or test that it does not. The statement `node` changes `target`."""

    def message() -> str:
        return f"`{shortened(node)}` reads `{shortened(target)}`, which it changes"

    if isinstance(where, Var):
        if where in variables(e):
            cx.fail("RG0704", message(), _reading(node, target), _new_variable(node))
        return
    for other, words in dict.fromkeys(loads(e)):
        if other.region is where.region:
            if any(at.region is where.region for term, _ in where.terms for at, _ in loads(term)):
                t.address(where)  # the word of a stack, tested to lie above the count, which its index reads
            differ(cx, t, where, other, 1, words, "RG0704", message(), node, e)


def independent(
    cx: Context,
    t: Temporaries,
    places: Sequence[tuple[Var | Address, ast.AST]],
    expressions: Sequence[E],
    node: ast.AST,
) -> None:
    """Refuse or test that the expressions, or the indices of the places, read one of the places, which are changed."""
    indices = [term for place, _ in places if isinstance(place, Address) for term, _ in place.terms]
    for place, target in places:
        for e in (*expressions, *indices):
            refuse_overlap(cx, t, e, place, node, target)


def differ(
    cx: Context,
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
            cx.fail(code, message, where, _new_variable(node) if update else None)
        return
    if are_apart(x, size_x, y, size_y, cx.builder.ranges, cx.builder.w):
        return
    difference = difference_of(x, y, cx.builder.w)
    free = variables(difference)
    summed = {v for n in (walk(within) if within is not None else ()) for v in indices_of(n)}
    if free & summed:
        # The index of a sum or an extreme runs over the array, and the ranges do not exclude the word itself.
        cx.fail(code, message, node, _new_variable(node))
    if size_x == size_y == 1:
        a, b = sides(difference)
        test = Test("ne", t.operand(a), t.operand(b))
        named = [f"`{x.param.name}`" for x in (a, b) if x.op == "read"]
        if len(named) == sum(x.op != "const" for x in (a, b)):
            message += f": {' and '.join(named)} {'is' if len(named) == 1 else 'are both'} {{a}}"
    else:
        # d ≥ size_y or d ≤ −size_x, as one unsigned comparison of d + size_x − 1 with size_x + size_y − 1
        shifted = add(difference, const(size_x - 1, INT), cx.builder.w)
        test = Test("geu", t.operand(shifted), Const(size_x + size_y - 1))
    t.compute.append(Check(test, "RG0805", message, cx.span(node)))


def apart(
    cx: Context, t: Temporaries, x: Address, y: Address, size_x: E, size_y: E, message: str, node: ast.AST
) -> None:
    """Test that [x, x + size_x) and [y, y + size_y) do not overlap, for sizes that are known only when the program runs."""
    w = cx.builder.w
    t.require((*x.checks, *y.checks))
    # d ≥ size_y or d ≤ −size_x, as one unsigned comparison of d + size_x − 1 with size_x + size_y − 1, or with 0 where one is empty.
    shifted = sub(add(difference_of(x, y, w), size_x, w), const(1, INT), w)
    empty = [apply("seq", INT, size, const(0, INT)) for size in (size_x, size_y)]
    both = apply("seq", INT, apply("or", INT, *empty), const(0, INT))
    most = apply("mul", INT, sub(add(size_x, size_y, w), const(1, INT), w), both)
    test = Test("geu", t.operand(shifted), t.operand(most))
    t.compute.append(Check(test, "RG0805", message, cx.span(node)))


def distinct(cx: Context, t: Temporaries, x: Scalar, y: Scalar, call: ast.Call) -> None:
    """Refuse or test that two places of one instruction are the same word."""
    message = f"`{shortened(call.args[0])}` and `{shortened(call.args[1])}` are the same word"
    if isinstance(x.place, Var) or isinstance(y.place, Var):
        if x.place is y.place:
            cx.fail("RG0705", message, call)
        return
    assert x.place is not None
    assert y.place is not None
    if x.place.region is y.place.region:
        differ(cx, t, x.place, y.place, 1, 1, "RG0705", message, call)


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


# -----------------------------------------------------------------------------
# Updates `x op= e` of one word, of each element of an array, or of each field of a struct.
#
# x ⊕= e, where e does not read x        inverse: the opposite operator, with the same e

UINT, FIXED, BOOL = Kind.UINT, Kind.FIXED, Kind.BOOL

_UPDATES: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.BitXor: "xor", ast.Mult: "mul", ast.Div: "div",
}  # fmt: skip

SIGNS = {"add": "+=", "sub": "-=", "xor": "^=", "mul": "*=", "div": "/="}

#: kind → its updates
_DEFINED = {
    INT: ("add", "sub", "xor"), UINT: ("add", "sub", "xor"), FIXED: ("add", "sub"), BOOL: ("xor",), Kind.LOGNUM: ("mul", "div"),
}  # fmt: skip


def is_update(op: ast.operator, kind: Kind | None) -> bool:
    """Whether a kind has the augmented assignment of an operator."""
    return kind is not None and _UPDATES.get(type(op)) in _DEFINED[kind]


def lower_update(cx: Context, node: ast.AugAssign) -> None:
    target, op, value = node.target, node.op, node.value
    update = _UPDATES.get(type(op))
    if isinstance(op, ast.MatMult):
        hint = "make a new array with rg.zeros, and add the product to it"
        cx.fail("RG0701", f"`{shortened(node)}` cannot be undone", node, hint)
    if update is None:
        sign = OPERATORS.get(type(op), "@")
        hint = f"make a new variable, `t = {ast.unparse(target)} {sign} {ast.unparse(value)}`"
        if isinstance(op, ast.LShift | ast.RShift):
            hint += f"; or turn the bits around with rg.{'rol' if isinstance(op, ast.LShift) else 'ror'}"
        message = f"`{shortened(node)}` cannot be undone: it forgets a part of `{shortened(target)}`"
        cx.fail("RG0701", message, node, hint)
    place, found = location(cx, target), cx.value(value)
    if isinstance(place, StructValue) and not is_number(place):
        refuse_other_names(cx, [target], [place])
    _update_value(cx, place, update, cx.stored(found, value), node, target)


def _update_value(cx: Context, place: Value, update: str, value: Value, node: ast.AST, target: ast.AST) -> None:
    match place:
        case Scalar():
            update_number(cx, place, update, value, node, target)
        case ArrayView():
            update_array(cx, place, update, value, node)
        case StructValue(t) if is_complex(t) and update in _DEFINED[FIXED]:
            update_complex(cx, place, update, value, node, target)
        case StructValue():
            _update_struct(cx, place, update, value, node, target)
        case _:
            message = f"`{shortened(target)}` is {describe(place)}, which has no {SIGNS[update]}"
            s = shortened(target)
            hint = f"Push a value, `rg.push({s}, x)`, or change a word: `{s}[-1] {SIGNS[update]} …`."
            cx.fail("RG0703", message, node, hint if isinstance(place, StackValue) else None)


def _update_struct(cx: Context, place: StructValue, update: str, value: Value, node: ast.AST, target: ast.AST) -> None:
    """`place update= value` for each field, of two structs of one type."""
    if update not in ("add", "sub"):
        message = f"{SIGNS[update]} is not defined for a {place.type}"
        way = "structs have += and −=; update its fields, or make a new variable, `t = …`"
        if is_complex(place.type) and isinstance(node, ast.AugAssign):
            made = f"t = {shortened(target)} {OPERATORS[type(node.op)]} {shortened(node.value)}"
            way = f"a product may lose digits: make a new variable, `{made}`"
        cx.fail("RG0703", message, node, way)
    if not isinstance(value, StructValue) or value.type != place.type:
        field = f"{shortened(target)}.{next(iter(place.fields))}"
        way = f"add a {place.type}, or update its fields, `{field} {SIGNS[update]} …`"
        message = f"`{shortened(target)}` is {describe(place)}, and {describe(value)} is no {place.type}"
        cx.fail("RG0703", message, getattr(node, "value", node), way)
    t = cx.builder.temporaries()
    earlier: list[Scalar] = []
    for name, inner in place.fields.items():
        for changed in earlier:
            for x in scalars(value.fields[name]):
                _refuse_crossed(cx, t, changed, x.e, node, target)
        earlier += scalars(inner)
    cx.builder.emit(t.wrap(()))
    for name, inner in place.fields.items():
        _update_value(cx, inner, update, value.fields[name], node, target)


def _refuse_crossed(cx: Context, t: Temporaries, changed: Scalar, e: E, node: ast.AST, target: ast.AST) -> None:
    """Refuse, or test, that the value of a field reads a field that is changed before it: `a += V(b.x, a.x)`."""
    where = changed.place
    assert where is not None
    refuse_overlap(cx, t, e, where, node, target)


def _operand_of_update(cx: Context, place: Scalar, update: str, value: Value, node: ast.AST) -> E:
    """The expression of the right-hand side, of the kind of the place."""
    kind = place.kind
    if update not in _DEFINED[kind]:
        message = f"{SIGNS[update]} is not defined for {'an' if kind is INT else 'a'} {kind.value}"
        cx.fail("RG0703", message, node, _instead(update, kind, node))
    at = node.value if isinstance(node, ast.AugAssign) else node
    if isinstance(value, ArrayView | Lazy):
        hint = f"rg.sum({shortened(at)}) is the sum of its elements" if at is not node else None
        cx.fail("RG0712", f"{describe(value)} is added to one number", at, hint)
    if kind in (INT, UINT):
        # `u += n` and `n += u` of an int n and a uint u are sums mod 2^W, as `u + n` is.
        return cx.guarded(at, cx.arithmetic.modulo, value, kind)
    return cx.number(value, at, kind)


def update_number(cx: Context, place: Scalar, update: str, value: Value, node: ast.AST, target: ast.AST) -> None:
    """`place update= value`."""
    e = _operand_of_update(cx, place, update, value, node)
    t = cx.builder.temporaries()
    where = place.place
    assert where is not None
    independent(cx, t, [(where, target)], [e], node)
    body: list[Node] = []
    if isinstance(where, Address) and place.kind in (INT, UINT, BOOL) and e.op in ("const", "read", "load"):
        # One instruction updates the word in memory.
        body.append(t.memory(f"st.{update}", t.operand(e), where))
    else:
        d = where if isinstance(where, Var) else Var(f"%{where.region.name}", place.kind, t.span)
        t.into(body, d, update, e)
        if isinstance(where, Address):
            # The word is exchanged into d after the temporaries were computed, since they may read the array.
            t.compute.append(Local(d, False, t.span))
            t.compute.append(t.memory("exch", d, where))
    cx.locals.emit_update(where, update, e, t.wrap(tuple(body)))


def update_complex(cx: Context, place: StructValue, update: str, value: Value, node: ast.AST, target: ast.AST) -> None:
    """`place update= value` of a complex number: its parts, neither of which the value may read."""
    at = node.value if isinstance(node, ast.AugAssign) else node
    if isinstance(value, ArrayView | Lazy):
        cx.fail("RG0712", f"{describe(value)} is added to one number", at)
    whole = cx.guarded(at, cx.arithmetic.complex.of_type, place.type, value)
    places: list[tuple[Var | Address, ast.AST]] = []
    for part in place.fields.values():
        assert isinstance(part, Scalar)
        assert part.place is not None
        places.append((part.place, target))
    t = cx.builder.temporaries()
    read = [cx.number(v, at, FIXED) for v in whole.fields.values()]
    independent(cx, t, places, read, node)
    cx.builder.emit(t.wrap(()))
    for name, part in place.fields.items():
        assert isinstance(part, Scalar)
        update_number(cx, part, update, whole.fields[name], node, target)


def update_array(cx: Context, place: ArrayView, update: str, value: Value, node: ast.AST) -> None:
    """`place update= value` for each element."""
    if isinstance(value, ArrayView | Lazy):
        shape = cx.guarded(node, broadcast, [place.shape, value.shape])
        if shape != place.shape:
            cx.fail("RG0712", f"{describe(value)} does not broadcast to the shape {place.shape}", node)
        place = replace(place, shape=shape)
    _refuse_shifted(cx, place, value, node)

    def one(index: tuple[E, ...]) -> None:
        _update_value(cx, element(place, index), update, element(value, index), node, getattr(node, "target", node))

    cx.over_elements(place.shape, one, value)


def _refuse_shifted(cx: Context, place: ArrayView, value: Value, node: ast.AST) -> None:
    """Refuse `a[1:] += a[:-1]`: an element would read an element that was changed before it."""
    if not isinstance(value, ArrayView | Lazy) or is_empty(place.shape):
        return
    ones = [Var(f"i{n}", INT) for n in range(len(place.shape))]
    for var, length in zip(ones, place.shape, strict=True):
        note_range(cx.builder.ranges, var, length, cx.builder.w)
    words = [*scalars(element(value, tuple(read(v) for v in ones)))]
    steps = [(bound(n) - 1) * s for n, s in zip(place.shape, place.strides, strict=True)]
    extent = sum(s for s in steps if s > 0) + place.element.size
    below = sum(s for s in steps if s < 0)
    for at, size in (found for x in words for found in loads(x.e)):
        if at.region is not place.address.region:
            continue
        difference = difference_of(at, place.address, cx.builder.w)
        bounds = interval(difference, cx.builder.ranges)
        if bounds is not None and (bounds[0] >= extent or bounds[1] + size - 1 < below):
            continue
        if variables(difference) - set(ones):
            # Other indices decide: each element is tested when the program runs.
            continue
        if bounds is not None and not (size == 1 and _disjoint_by_stride(at, place)):
            hint = "write a loop over the elements, in the order that you mean"
            message = f"`{shortened(node)}` reads elements of the array that it changes"
            cx.fail("RG0704", message, node, hint)


def _instead(update: str, kind: Kind, node: ast.AST) -> str | None:
    """A hint for an update that is not defined for a kind."""
    if update in ("mul", "div") and kind in (FIXED, INT, UINT):
        new = ""
        if isinstance(node, ast.AugAssign):
            new = f", `t = {shortened(node.target)} {OPERATORS[type(node.op)]} {shortened(node.value)}`"
        if kind is not FIXED:
            return f"An even factor and a quotient forget a part of the old value: make a new variable{new}."
        return f"Rounding and zero factors forget the old value: make a new variable{new}; or use a lognum, whose *= and /= are exact."
    if kind is Kind.LOGNUM:
        return "lognums have *= and /=; a sum of lognums is a factor, `z *= x + y`"
    if kind is BOOL:
        return "bools have ^="
    if kind is FIXED and update == "xor":
        return "fixed numbers have += and -="
    return None


def _disjoint_by_stride(at: Address, place: ArrayView) -> bool:
    """Whether an address that moves in steps of the strides of a view misses it: another column, another field."""
    steps = [abs(k) for _, k in at.terms] + [abs(s) for s in place.strides]
    common = gcd(*steps) if steps else 0
    distance = at.offset - place.address.offset
    same_base = at.base is place.address.base
    return (
        same_base and common > 1 and not place.address.terms and place.element.size <= distance % common <= common - 1
    )
