"""Statements that change a location in place: updates `x op= e`, and bijections such as `rg.swap(x, y)`.

First the alias analysis. A program is reversible because an update reads nothing that it writes. An overlap that the
compiler can see is refused; where an index decides, the program tests it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

from retrograd.compiler.frontends.builder import words_at
from retrograd.compiler.frontends.python.context import Context, lowers, performs
from retrograd.compiler.frontends.python.expressions import OPERATORS
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
from retrograd.compiler.ir.statements import (
    Block,
    Check,
    Const,
    If,
    Kind,
    Local,
    Node,
    Op,
    Operand,
    Test,
    Var,
)
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.arithmetic import broadcast, element, number_kind
from retrograd.compiler.language.types import ScalarType, bound, is_complex, is_empty, note_range
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
    disjoint_by_stride,
    is_number,
    needed_distance,
    overlap,
    scalars,
    type_of,
)
from retrograd.isa.table import TABLE

INT, UINT, FIXED, BOOL = Kind.INT, Kind.UINT, Kind.FIXED, Kind.BOOL


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
            cx.fail("RG0704", message(), _reading(node, target), _new_variable(cx, node))
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
            cx.fail(code, message, where, _new_variable(cx, node) if update else None)
        return
    if are_apart(x, size_x, y, size_y, cx.builder.ranges, cx.w):
        return
    difference = difference_of(x, y, cx.w)
    free = variables(difference)
    summed = {v for n in (walk(within) if within is not None else ()) for v in indices_of(n)}
    if free & summed:
        # The index of a sum or an extreme runs over the array, and the ranges do not exclude the word itself.
        cx.fail(code, message, node, _new_variable(cx, node))
    if size_x == size_y == 1:
        a, b = sides(difference)
        test = Test("ne", t.operand(a), t.operand(b))
        named = [f"`{x.param.name}`" for x in (a, b) if x.op == "read"]
        if len(named) == sum(x.op != "const" for x in (a, b)):
            message += f": {' and '.join(named)} {'is' if len(named) == 1 else 'are both'} {{a}}"
    else:
        # d ≥ size_y or d ≤ −size_x, as one unsigned comparison of d + size_x − 1 with size_x + size_y − 1
        shifted = add(difference, const(size_x - 1, INT), cx.w)
        test = Test("geu", t.operand(shifted), Const(size_x + size_y - 1))
    t.compute.append(Check(test, "RG0805", message, cx.span(node)))


def apart(
    cx: Context, t: Temporaries, x: Address, y: Address, size_x: E, size_y: E, message: str, node: ast.AST
) -> None:
    """Test that [x, x + size_x) and [y, y + size_y) do not overlap, for sizes that are known only when the program runs."""
    w = cx.w
    t.require((*x.checks, *y.checks))
    # d ≥ size_y or d ≤ −size_x, as one unsigned comparison of d + size_x − 1 with size_x + size_y − 1, or with 0
    # where one is empty.
    shifted = sub(add(difference_of(x, y, w), size_x, w), const(1, INT), w)
    empty = [apply("seq", INT, size, const(0, INT)) for size in (size_x, size_y)]
    both = apply("seq", INT, apply("or", INT, *empty), const(0, INT))
    most = apply("mul", INT, sub(add(size_x, size_y, w), const(1, INT), w), both)
    test = Test("geu", t.operand(shifted), t.operand(most))
    t.compute.append(Check(test, "RG0805", message, cx.span(node)))


def distinct(
    cx: Context, t: Temporaries, pair: Sequence[tuple[Scalar, ast.AST]], call: ast.AST, message: str | None = None
) -> None:
    """Refuse or test that two places of one instruction are the same word."""
    (x, first), (y, second) = pair
    message = message or f"`{shortened(first)}` and `{shortened(second)}` are the same word"
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


def _new_variable(cx: Context, node: ast.AST) -> str | None:
    """A hint for an update that reads its target."""
    if not isinstance(node, ast.AugAssign):
        return None
    target, value, sign = ast.unparse(node.target), ast.unparse(node.value), OPERATORS[type(node.op)]
    if value == target and sign in "-^":
        return f"to make `{target}` zero is to erase it: `rg.erase({target})`"
    if isinstance(node.value, ast.BinOp) and not isinstance(node.value.op, ast.Mult | ast.Div | ast.Pow):
        value = f"({value})"
    if cx.scope.loops:
        return in_loop(shortened(node))
    return f"make a new variable, `t = {target} {sign} {value}`, and use it from here on"


def in_loop(statement: str) -> str:
    """A hint for a statement of a loop that forgets the value of the pass before."""
    way = "keep the value of each pass in an element of an array"
    return f"{way}; or write the function with `@rg.functional`, in which `{statement}` names a new value"


def sides(difference: E) -> tuple[E, E]:
    """(a, b) with a − b the difference: a test of a = b needs no temporary for the difference."""
    if difference.op == "sub":
        return difference.args[0], difference.args[1]
    return difference, const(0, INT)


# -----------------------------------------------------------------------------
# Updates `x op= e` of one word, of each element of an array, or of each field of a struct.
#
# x ⊕= e, where e does not read x        inverse: the opposite operator, with the same e

_UPDATES: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.BitXor: "xor", ast.Mult: "mul", ast.Div: "div",
}  # fmt: skip

SIGNS = {"add": "+=", "sub": "-=", "xor": "^=", "mul": "*=", "div": "/="}

#: kind → its updates
_DEFINED = {
    INT: ("add", "sub", "xor"), UINT: ("add", "sub", "xor"), FIXED: ("add", "sub"), BOOL: ("xor",), Kind.LOGNUM: ("mul", "div"),
}  # fmt: skip


def _updates(kind: Kind) -> tuple[str, ...]:
    return _DEFINED[FIXED if kind.is_fixed else kind]


def is_update(op: ast.operator, kind: Kind | None) -> bool:
    """Whether a kind has the augmented assignment of an operator."""
    return kind is not None and _UPDATES.get(type(op)) in _updates(kind)


@lowers(ast.AugAssign)
def lower_update(cx: Context, node: ast.AugAssign) -> None:
    if _update_one_to_one(cx, node):
        return
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
                assert changed.place is not None
                # `a += V(b.x, a.x)` reads a field that is changed before it.
                refuse_overlap(cx, t, x.e, changed.place, node, target)
        earlier += scalars(inner)
    cx.builder.emit(t.wrap(()))
    for name, inner in place.fields.items():
        _update_value(cx, inner, update, value.fields[name], node, target)


def _operand_of_update(cx: Context, place: Scalar, update: str, value: Value, node: ast.AST) -> E:
    """The expression of the right-hand side, of the kind of the place."""
    kind = place.kind
    if update not in _updates(kind):
        message = f"{SIGNS[update]} is not defined for {'an' if kind is INT else 'a'} {kind.value}"
        cx.fail("RG0703", message, node, _instead(cx, update, kind, node))
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

    terms = _terms_by_rows(cx, place, value)

    def one(index: tuple[E, ...]) -> None:
        found = element(value, index)
        if terms is not None and isinstance(found, Scalar):
            found = Scalar(found.e.args[0])
        _update_value(cx, element(place, index), update, found, node, getattr(node, "target", node))

    cx.over_elements(place.shape, one, value if terms is None else None, terms)


#: elements of the last axis from which on the loop over it stands inside of that over the terms of a sum
_FEW = 16


def _terms_by_rows(cx: Context, place: ArrayView, value: Value) -> E | None:
    """The sum Σₖ that is an element of the value, if its terms lie side by side along the last axis, and not along k.

        for i: for j: for k: c[i, j] += a[i, k] * b[k, j]    →    for i: for k: for j: c[i, j] += a[i, k] * b[k, j]

    Correct because the terms of an element are added in the order of k in both. The second form has a vector loop.
    Trap: where two elements overflow, another of them may trap first.
    """
    t = place.element
    if not (isinstance(value, Lazy) and isinstance(t, ScalarType)) or bound(place.shape[-1]) < _FEW:
        return None
    indices = tuple(Var(f"i{n}", INT) for n in range(len(place.shape)))
    found = element(value, tuple(map(read, indices)))
    if not isinstance(found, Scalar) or found.e.op != "total" or found.kind is not t.kind or found.kind is Kind.LOGNUM:
        return None
    term, last = found.e.args[0], read(indices[-1])
    over, _ = found.e.param
    if any(x.op in ("total", "running", "call", "view", "choose") for x in walk(term)):
        return None
    words = [dict(at.terms) for at, _ in loads(term)]
    if any(at.region is place.address.region for at, _ in loads(term)):
        return None
    side_by_side = abs(place.strides[-1]) == 1 and all(abs(steps.get(last, 0)) <= 1 for steps in words)
    apart = any(last in steps and abs(steps.get(read(k), 0)) > 1 for steps in words for k in over)
    return found.e if side_by_side and apart else None


def _refuse_shifted(cx: Context, place: ArrayView, value: Value, node: ast.AST) -> None:
    """Refuse `a[1:] += a[:-1]`: an element would read an element that was changed before it."""
    if not isinstance(value, ArrayView | Lazy) or is_empty(place.shape):
        return
    ones = [Var(f"i{n}", INT) for n in range(len(place.shape))]
    for var, length in zip(ones, place.shape, strict=True):
        note_range(cx.builder.ranges, var, length, cx.w)
    words = [*scalars(element(value, tuple(read(v) for v in ones)))]
    steps = [(bound(n) - 1) * s for n, s in zip(place.shape, place.strides, strict=True)]
    extent = sum(s for s in steps if s > 0) + place.element.size
    below = sum(s for s in steps if s < 0)
    for at, size in (found for x in words for found in loads(x.e)):
        if at.region is not place.address.region:
            continue
        difference = difference_of(at, place.address, cx.w)
        bounds = interval(difference, cx.builder.ranges)
        if bounds is not None and (bounds[0] >= extent or bounds[1] + size - 1 < below):
            continue
        if variables(difference) - set(ones):
            # Other indices decide: each element is tested when the program runs.
            continue
        if bounds is not None and not (size == 1 and disjoint_by_stride(at, place)):
            hint = "write a loop over the elements, in the order that you mean"
            message = f"`{shortened(node)}` reads elements of the array that it changes"
            cx.fail("RG0704", message, node, hint)


def _instead(cx: Context, update: str, kind: Kind, node: ast.AST) -> str | None:
    """A hint for an update that is not defined for a kind."""
    if update in ("mul", "div") and (kind.is_fixed or kind in (INT, UINT)):
        way = "make a new variable"
        if isinstance(node, ast.AugAssign):
            way += f", `t = {shortened(node.target)} {OPERATORS[type(node.op)]} {shortened(node.value)}`"
            way = in_loop(shortened(node)) if cx.scope.loops else way
        if not kind.is_fixed:
            return f"An even factor and a quotient forget a part of the old value: {way}."
        return f"Rounding and zero factors forget the old value: {way}; or use a lognum, whose *= and /= are exact."
    if kind is Kind.LOGNUM:
        return "lognums have *= and /=; a sum of lognums is a factor, `z *= x + y`"
    if kind is BOOL:
        return "bools have ^="
    if kind.is_fixed and update == "xor":
        return "fixed numbers have += and -="
    return None


# -----------------------------------------------------------------------------
# Bijections: exchanges, rotations, negations, stacks.
#
# swap, cswap, neg, flip: their own inverses      rot ↔ irot, rol ↔ ror, push ↔ pop
# x *= −1; z **= −1 of a lognum; n *= c of an odd c; n ^= n << k; u ^= u >> k of a uint
# erase: x := 0, which has no inverse


def _update_one_to_one(cx: Context, node: ast.AugAssign) -> bool:
    """An augmented assignment that maps words one to one though it reads its target; False for any other.

    x *= −1, x /= −1       the negative
    z **= −1               the reciprocal of a lognum, its own inverse
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
                and all(k.is_fixed or k in (INT, UINT) for k in kinds)
                and (kinds not in ({INT}, {UINT}) or isinstance(node.op, ast.Mult))
            ):
                _elementwise(cx, "neg", place, node, node.target)
                return True
            if isinstance(node.op, ast.Div) or kinds not in ({INT}, {UINT}) or number_kind(found.value) is not INT:
                return False
            factor = int(found.value)
            if factor % 2 == 0:
                target = shortened(node.target)
                hint = f"make a new variable, `t = {target} * {factor}`"
                if factor > 0 and factor.bit_count() == 1:
                    hint += (
                        f"; or `rg.rol({target}, {factor.bit_length() - 1})`, which moves the highest bits to the end"
                    )
                message = f"`{shortened(node)}` forgets a bit of `{shortened(node.target)}`: only odd factors have an inverse mod 2^W"
                cx.fail("RG0703", message, node, hint)
            _change_words(cx, place, node, lambda t, d: _multiplied(cx, t, d, factor))
            return True
        case ast.Pow(), _:
            found = cx.value(node.value)
            if not isinstance(found, Constant) or number_kind(found.value) not in (INT, FIXED) or found.value != -1:
                return False
            place = location(cx, node.target)
            kinds = {x.kind for x in _numbers(place)}
            if BOOL in kinds:
                return False
            if kinds != {Kind.LOGNUM}:
                s = shortened(node.target)
                message = f"`{shortened(node)}` cannot be undone: 1/{s} is rounded, so many words have one reciprocal"
                hint = f"make a new variable, `t = 1 / {s}`; or declare `{s}` a `lognum`, whose reciprocal is exact"
                cx.fail("RG0701", message, node, hint)
            _change_words(cx, place, node, _inverted)
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
    _in_registers(cx, [(place, node.target)], [], node, change)


def _in_registers(
    cx: Context,
    places: Sequence[tuple[Scalar, ast.AST]],
    expressions: Sequence[E],
    node: ast.AST,
    made: Callable[..., Block],
) -> None:
    """Emit `made(temporaries, *variables, *operands)`, statements that change places and read expressions.

    A word in memory is exchanged into a variable meanwhile. The expressions read none of the places.
    """
    t = cx.builder.temporaries()
    found = [(x.place, target) for x, target in places if x.place is not None]
    independent(cx, t, found, expressions, node)
    if len(places) == 2:
        distinct(cx, t, places, node)
    operands = [t.operand(e) for e in expressions]
    variables = [register(cx, t, x.place, x.kind) for x, _ in places if x.place is not None]
    nodes = made(t, *variables, *operands)
    cx.builder.emit(t.wrap(nodes), stores=words_at(*(place for place, _ in found)))


def _multiplied(cx: Context, t: Temporaries, d: Var, factor: int) -> Block:
    """p += d·c; d −= p·c⁻¹, which is zero; d, p = p, d"""
    w, product = cx.w, t.fresh("product", d.kind)
    back = pow(factor, -1, 1 << w.width)
    return (
        t.op("mul", "add", product, d, Const(w.wrap(factor))),
        t.op("mul", "sub", d, product, Const(back)),
        Op(TABLE["swap"], d, product, None, 0, t.span),
    )


def _inverted(t: Temporaries, d: Var) -> Block:
    """p *= d; d /= p², which makes d = 1/p; p *= d, which is 1 again. Exact: each product adds two logarithms."""
    former = t.fresh("former", d.kind)
    multiply, divide = t.op("lmov", "mul", former, d), t.op("lmov", "div", d, former)
    return multiply, divide, divide, multiply


def _xored_with_shifted(cx: Context, t: Temporaries, d: Var, name: str, count: int) -> Block:
    """s ^= d << k; d ^= s; s ^= d << k ^ d << 2k ^ …, which is zero; `shr` in place of `shl` alike"""
    shifted = t.fresh("shifted", d.kind)
    first = t.op(name, "xor", shifted, d, Const(count))
    later = (t.op(name, "xor", shifted, d, Const(k)) for k in range(2 * count, cx.w.width, count))
    return (first, t.op("mov", "xor", d, shifted), first, *later) if count < cx.w.width else ()


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
    values = location(cx, x), location(cx, y)
    _need_different(cx, values, x)
    _exchange(cx, *values, x)


def _need_different(cx: Context, values: Sequence[Value], node: ast.AST) -> None:
    """Refuse or test that a struct made of variables, `V(a, a)`, has a word twice, or has it in another place than the other struct."""
    words = [list(scalars(value)) for value in values if isinstance(value, StructValue)]
    if not words:
        return
    t = cx.builder.temporaries()
    for own in words:
        for pair in combinations(own, 2):
            distinct(cx, t, [(x, node) for x in pair], node, f"two words of `{shortened(node)}` are the same")
    for i, x in enumerate(words[0] if len(words) == 2 else ()):
        if any(x.place is y.place and i != j for j, y in enumerate(words[1]) if isinstance(x.place, Var)):
            cx.fail("RG0705", "the two structs have a word in common, in different places", node)
    cx.builder.emit(t.wrap(()))


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
        case StackValue(), StackValue() if x.type == y.type:
            _exchange(cx, x.words, y.words, node)
        case ArrayView(), ArrayView() if x.shape == y.shape and x.element == y.element:
            _need_apart(cx, x, y, node)
            cx.over_elements(x.shape, lambda index: _exchange(cx, element(x, index), element(y, index), node))
        case _:
            code = "RG0712" if isinstance(x, ArrayView) and isinstance(y, ArrayView) else "RG0703"
            way = "Exchange two places of one type and shape."
            if isinstance(x, Scalar) and isinstance(y, Scalar) and x.kind.is_fixed and y.kind.is_fixed:
                way = _ONE_POINT
            elif isinstance(x, StackValue) and isinstance(y, StackValue):
                way = "Declare both stacks with one type: the room for values is a part of it."
            cx.fail(code, f"{describe(x)} and {describe(y)} are exchanged", node, way)


def _need_apart(cx: Context, x: ArrayView, y: ArrayView, node: ast.AST) -> None:
    """Refuse or test that an element of one view is another element of the other, since its word would be moved twice."""
    size, t = needed_distance(x, y, cx.w), cx.builder.temporaries()
    message = f"two slices that overlap are exchanged: `{shortened(node)}` has a word of the other elsewhere"
    if size is None:
        cx.fail("RG0705", message, node, "Exchange slices without common elements, or one element after the other.")
    if size:
        differ(cx, t, x.address, y.address, size, size, "RG0705", message, node)
        cx.builder.emit(t.wrap(()))


_ONE_POINT = "Give both the same point: a word changes its value with its point, and moving it would lose bits."


def _exchange_words(cx: Context, t: Temporaries, x: Address, y: Address, nodes: Block, node: ast.AST) -> None:
    """Exchange two words of memory by three exchanges, which would lose the word where both are the same."""
    if x.region is y.region:
        distance = x.minus(y)
        if distance == 0:
            return
        difference = difference_of(x, y, cx.w)
        bounds = interval(difference, cx.builder.ranges)
        if distance is None and (bounds is None or bounds[0] <= 0 <= bounds[1]):
            a, b = sides(difference)
            test = Test("ne", t.operand(a), t.operand(b))
            nodes = (If(test, nodes, (), test, cx.span(node)),)
    cx.builder.emit(t.wrap(nodes), stores=words_at(x, y))


@performs(intrinsics.neg, intrinsics.flip, intrinsics.erase)
def change(cx: Context, name: str, call: ast.Call) -> None:
    """`rg.neg(x)`, `rg.flip(x)`, `rg.erase(x)`."""
    x = location(cx, call.args[0])
    _need_different(cx, (x,), call)
    _elementwise(cx, name, x, call, call.args[0])


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
    kind, span = x.kind, cx.span(call)

    def changed(t: Temporaries, d: Var) -> Block:
        match name, kind:
            case "neg", _ if kind.is_fixed or kind in (INT, UINT):
                return (Op(TABLE["neg"], d, None, None, 0, span),)
            case "neg", Kind.LOGNUM:
                return (t.op("lmov", "mul", d, Const(cx.w.sign)),)
            case "flip", Kind.BOOL:
                return (t.op("mov", "xor", d, Const(1)),)
            case "flip", (Kind.INT | Kind.UINT):
                return (Op(TABLE["not"], d, None, None, 0, span),)
            case "erase", _:
                return (Op(TABLE["erase"], d, None, None, 0, span),)
        other = f"write `rg.flip({shortened(target)})`" if name == "neg" and kind is BOOL else None
        cx.fail("RG0703", f"rg.{name} is not defined for {kind.value}", call, other)

    _in_registers(cx, [(x, target)], [], call, changed)
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
    if not (isinstance(x, Scalar) and isinstance(y, Scalar) and x.kind.is_fixed and y.kind.is_fixed):
        message = f"rg.{name} of {describe(x)} and {describe(y)}: it turns two fixed numbers"
        cx.fail("RG0703", message, call)
    if x.kind.point(cx.w) != y.kind.point(cx.w):
        message = f"rg.{name} of {describe(x)} and {describe(y)}, whose binary points differ"
        cx.fail("RG0703", message, call, _ONE_POINT)
    e = cx.number(angle, call, FIXED)
    given, span = [(x, call.args[0]), (y, call.args[1])], cx.span(call)
    _in_registers(cx, given, [e], call, lambda t, d, a, turn: (Op(TABLE[name], d, a, turn, 0, span),))


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
    _need_different(cx, (x, y), call)
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
        cx.fail("RG0703", message, call, hint if isinstance(x, Scalar) and x.kind.is_fixed else None)
    k, span = cx.integer(args[1]), cx.span(call)
    _in_registers(cx, [(x, args[0])], [k], call, lambda t, d, amount: (Op(TABLE[name], d, amount, None, 0, span),))


def _numbers(place: Value) -> list[Scalar]:
    """The numbers of a location: of an array one element."""
    if isinstance(place, ArrayView):
        return [*scalars(element(place, tuple(const(0, INT) for _ in place.shape)))]
    return [*scalars(place)]
