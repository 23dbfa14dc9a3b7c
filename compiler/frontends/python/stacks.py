"""Pushes and pops: `rg.push(s, x)` moves a number, a struct or a stack onto a stack, `rg.pop(s, x)` takes it back."""

from __future__ import annotations

import ast
from itertools import combinations

from retrograd.compiler.frontends.builder import words_at
from retrograd.compiler.frontends.python.calls import extent
from retrograd.compiler.frontends.python.context import Context, performs
from retrograd.compiler.frontends.python.source import shortened
from retrograd.compiler.frontends.python.updates import differ, distinct, independent, location, register
from retrograd.compiler.ir.expressions import Address, E, loads, read
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import ZERO, Block, Check, Const, Delocal, Kind, Local, Node, Test, Var, invert
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.arithmetic import element
from retrograd.compiler.language.types import ScalarType
from retrograd.compiler.language.values import (
    ArrayView,
    Scalar,
    StackValue,
    StructValue,
    Value,
    describe,
    overlap,
    parts,
    places,
    scalars,
    stored,
    type_of,
)


@performs(intrinsics.push, intrinsics.pop)
def push(cx: Context, name: str, call: ast.Call) -> None:
    """`rg.push(S, x)`: S[count], x = x, S[count]; count += 1, where S is zero from count on. `rg.pop` is the inverse.

    Of a struct, each number of x is exchanged with its place on the stack; of a stack, its count and all its room.
    """
    args = call.args
    s, x = location(cx, args[0]), location(cx, args[1])
    if not isinstance(s, StackValue):
        kind = x.kind.value if isinstance(x, Scalar) else "fixed"
        hint = f"make one: `s = rg.stack({kind}, 100)`"
        if isinstance(x, StackValue):
            hint = f"The stack comes first: write `rg.{name}({shortened(args[1])}, {shortened(args[0])})`."
        cx.fail("RG0703", f"rg.{name} on {describe(s)}, which is no stack", call, hint)
    count, span = Var("count", Kind.INT, cx.span(call)), cx.span(call)
    top = stored(s.type.element, s.address.moved(1).shifted(read(count), s.type.element.size))
    words = _pairs(x, top)
    if words is None:
        way = None
        if isinstance(x, StructValue) and x.fields and isinstance(s.type.element, ScalarType):
            field = f"{shortened(args[1])}.{next(iter(x.fields))}"
            way = f"{name} its fields one after the other, `rg.{name}({shortened(args[0])}, {field})`; a pop has the opposite order"
        what = describe(x)
        if isinstance(x, StructValue) and x.type == s.type.element:
            pairs = zip(parts(x), parts(top), strict=True)
            wrong, wanted = next(pair for pair in pairs if type_of(pair[0]) != type_of(pair[1]))
            what += f" with {describe(wrong)} in place of {describe(wanted)}"
            way = f"words are moved, and not converted: write {describe(wanted)} there"
        cx.fail("RG0703", f"rg.{name} of {what} on a stack of {s.type.element}", call, way)
    t = cx.builder.temporaries()
    _need_apart(cx, t, s, x, call)
    # The words above the top are zero. So x is zero after a push, and must be zero before a pop.
    taken = f"to take the top of the stack `{shortened(args[0])}`"
    message = f"`{shortened(args[1])}` is {{a}}, and must be zero {taken}"
    if isinstance(x, StackValue):
        message = f"`{shortened(args[1])}` must be empty {taken}, and is not"

    def moved(t: Temporaries, own: Value, there: Value) -> Block:
        """The word in its place on the stack, which is zero, and zero in its former place."""
        assert isinstance(own, Scalar)
        assert own.place is not None
        assert isinstance(there, Scalar)
        assert isinstance(there.place, Address)
        held, inner = register(cx, t, own.place, own.kind), cx.builder.temporaries()
        empty = Check(Test("eq", held, ZERO), "RG0802", message, span)
        return (*inner.wrap((inner.memory("exch", held, there.place),)), empty)

    def moved_elements(own: ArrayView, there: ArrayView) -> Block:
        def move(index: tuple[E, ...]) -> None:
            t = cx.builder.temporaries()
            cx.builder.emit(t.wrap(moved(t, element(own, index), element(there, index))))

        with cx.builder.collect() as nodes:
            cx.over_elements(own.shape, move)
        return tuple(nodes)

    move: list[Node] = []
    for own, there in words:
        if isinstance(own, StackValue) and isinstance(there, StackValue):
            move += moved_elements(own.words, there.words)
        elif isinstance(own, ArrayView) and isinstance(there, ArrayView):
            move += moved_elements(own, there)
        else:
            move += moved(t, own, there)
    scalar_places = words_at(*(y.place for y in scalars(x)))
    stores = [*scalar_places, *((y.address, None) for y in parts(x) if isinstance(y, ArrayView | StackValue))]
    outer = cx.builder.temporaries()
    full = f"the stack `{shortened(args[0])}` is {{full}}"
    room = Check(Test("ltu", count, Const(s.type.capacity)), "RG0806", full, span)
    take = outer.memory("exch", count, s.address)
    # Backward, the words below an empty stack of structs may lie outside of memory.
    before: Block = () if isinstance(x, Scalar) else (room,)
    sequence: Block = (take, room, *move, *before, outer.op("mov", "add", count, Const(1)), take)
    nodes = outer.wrap((Local(count, False, span), *sequence, Delocal(count, False, span)))
    cx.builder.emit(t.wrap(nodes if name == "push" else invert(nodes)), stores=stores)


def _pairs(x: Value, y: Value) -> list[tuple[Value, Value]] | None:
    """The numbers and arrays of x, each with that of y in the same place; None where x and y differ in type."""
    if type_of(x) != type_of(y):
        return None
    pairs = [*zip(parts(x), parts(y), strict=True)]
    # `V(n, b)` is a V whatever its arguments are.
    return pairs if all(type_of(a) == type_of(b) for a, b in pairs) else None


def _need_apart(cx: Context, t: Temporaries, s: StackValue, x: Value, call: ast.Call) -> None:
    """Refuse or test that two words of x are the same, that one of them lies in the stack s, or that an index reads one."""
    numbers, target = list(parts(x)), call.args[1]
    scalars_of_x = [(y.place, target) for y in numbers if isinstance(y, Scalar) and y.place is not None]
    independent(cx, t, scalars_of_x, [e for e, _ in s.address.terms], call)
    held = [place for place in places(x) if isinstance(place, Address)]
    if any(_may_touch(y, s) for y in numbers):
        cx.fail("RG0705", f"`{shortened(target)}` lies in the stack itself", call)
    arrays = [y for y in numbers if isinstance(y, ArrayView)]
    for e in (term for place in held if arrays for term, _ in place.terms):
        if any(at.region in (s.address.region, *(y.address.region for y in arrays)) for at, _ in loads(e)):
            cx.fail("RG0704", f"`{shortened(call)}` reads a word that it changes", call)
    message = f"two words of `{shortened(target)}` are the same"
    for first, second in combinations(numbers, 2):
        if isinstance(first, Scalar) and isinstance(second, Scalar):
            distinct(cx, t, [(first, target), (second, target)], call, message)
        elif overlap(first, second):
            x_at, y_at = (_dense(cx, y, message, call) for y in (first, second))
            differ(cx, t, x_at[0], y_at[0], x_at[1], y_at[1], "RG0705", message, call)


def _may_touch(x: Value, s: StackValue) -> bool:
    """Whether a number or array may share a word with the stack: two fields of one struct do not."""
    match x:
        case Scalar(place=Address() as at):
            words = 1
        case ArrayView(address=at):
            words = extent(x) if all(n > 0 for n in x.strides) else s.type.size
        case StackValue(type=t, address=at):
            words = t.size
        case _:
            return False
    distance = at.minus(s.address) if at.region is s.address.region else s.type.size
    return distance is None or -words < distance < s.type.size


def _dense(cx: Context, x: Value, message: str, node: ast.AST) -> tuple[Address, int]:
    """The first word of a number or array in memory, and the number of words to its last; refused where its indices run down."""
    match x:
        case Scalar(place=Address() as at):
            return at, 1
        case ArrayView(strides=strides) if all(n > 0 for n in strides):
            return x.address, extent(x)
    cx.fail("RG0705", message, node)
