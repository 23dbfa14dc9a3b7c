"""Indexing `x[i]`, `x[a:b, j]`: views of arrays, with the bounds checks of the indices.

Element i of an axis lies at address + stride · i. A slice changes the first address, the length and the stride.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple, NoReturn

import numpy as np
from retrograd.compiler.frontends.python.context import Context, evaluates
from retrograd.compiler.frontends.python.source import shortened
from retrograd.compiler.ir.expressions import (
    Address,
    E,
    InRange,
    Length,
    RunLength,
    add,
    apply,
    const,
    constant,
    interval,
    linear,
    load,
    read,
    sub,
)
from retrograd.compiler.ir.instruction_selection import OPPOSITE
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Check,
    Const,
    Delocal,
    Kind,
    Local,
    Node,
    Op,
    Region,
    Test,
    Var,
)
from retrograd.compiler.language.arithmetic import element, first_of, number_kind
from retrograd.compiler.language.complex_numbers import is_conjugation
from retrograd.compiler.language.purity import need_container, need_plain
from retrograd.compiler.language.types import (
    ScalarType,
    bound,
    is_complex,
    is_empty,
    is_known,
    keys_of,
    known,
    note_range,
    scalar_of,
    shown_fields,
    value_of,
)
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    FunctionValue,
    Lazy,
    Scalar,
    StackValue,
    StructValue,
    Value,
    count_of,
    describe,
    parts,
    places,
    stored,
    tuple_value,
    variable,
)
from retrograd.isa.diagnostics import nearest
from retrograd.isa.table import TABLE

INT, UINT, FIXED, BOOL, LOGNUM = Kind.INT, Kind.UINT, Kind.FIXED, Kind.BOOL, Kind.LOGNUM


class Sliced(NamedTuple):
    """A slice: its first index, its number of elements, its step, and the conditions under which its elements exist."""

    first: E
    length: Length
    step: int
    checks: tuple[InRange, ...] = ()


@evaluates(ast.Subscript)
def subscript(cx: Context, node: ast.Subscript) -> Value:
    x = cx.value(node.value)
    keys = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if isinstance(x, Constant):
        cx.guarded(node.value, need_container, x.value)
        if isinstance(x.value, np.ndarray | list | tuple):
            found = _constant_item(cx, x.value, keys, node)
            if found is not None:
                return found
            x = cx.constant_array(x.value, node)
        else:
            index = cx.static(node.slice, "an index into a constant")
            cx.guarded(node.slice, need_plain, index)
            try:
                if isinstance(x.value, dict) and index not in x.value:
                    raise KeyError(index)  # a defaultdict would make the item
                return cx.wrap(x.value[index])
            except Exception as error:
                cx.fail("RG0703", f"`{shortened(node)}`: {type(error).__name__} {error}", node)
    if isinstance(x, StackValue):
        return _index_stack(cx, x, node)
    if isinstance(x, StructValue):
        return _index_struct(cx, x, node)
    if not isinstance(x, ArrayView | Lazy):
        word, hint = shortened(node.value), None
        if isinstance(x, Scalar) and x.kind in (INT, UINT):
            hint = f"Bit i of `{word}` is `{word} >> i & 1`; `{word} ^= 1 << i` turns it over. Bits i to j − 1 are `{word} >> i & (1 << j - i) - 1`."
        cx.fail("RG0703", f"{describe(x)} cannot be indexed", node, hint)
    if any(isinstance(k, ast.Constant) and k.value is Ellipsis for k in keys):
        at = next(i for i, k in enumerate(keys) if isinstance(k, ast.Constant) and k.value is Ellipsis)
        given = sum(not _new_axis(cx, k) for k in keys) - 1
        fill: list[ast.expr] = [ast.Slice() for _ in range(len(x.shape) - given)]
        keys = [*keys[:at], *fill, *keys[at + 1 :]]
    given = sum(not _new_axis(cx, k) for k in keys)
    if given > len(x.shape):
        cx.fail("RG0712", f"{given} indices for {describe(x)}", node)
    return _index_view(cx, x, keys, node) if isinstance(x, ArrayView) else _index_lazy(cx, x, keys, node)


def _index_struct(cx: Context, x: StructValue, node: ast.Subscript) -> Value:
    """The field of a struct: `p["w"]` by name, `p[0]` by position, both known when the program is compiled."""
    names = [*x.fields]
    if x.type.is_tuple and isinstance(node.slice, ast.Slice):
        ends = (node.slice.lower, node.slice.upper, node.slice.step)
        bounds = [None if e is None else cx.static_int(e, "the bound of a slice") for e in ends]
        return tuple_value([x.fields[name] for name in names[slice(*bounds)]])
    key, keys = _key_of(cx, x, node), keys_of(x.type.cls)
    if any(own != name for own, name in keys.items()):
        try:
            return x.fields[keys[key]]
        except (KeyError, TypeError):
            message = f"`{shortened(node.value)}` has no key {key!r:.40}"
            cx.fail("RG0702", message, node, f"its keys are {shown_fields(x.type)}")
    if isinstance(key, str) and key in x.fields:
        return x.fields[key]
    if type(key) is int and -len(names) <= key < len(names):
        return x.fields[names[key]]
    if x.type.is_tuple:
        shown = shortened(node.value)
        cx.fail("RG0713", f"`{shortened(node)}` is no item: `{shown}` is {describe(x)}", node)
    near = nearest(key, names) if isinstance(key, str) else None
    cx.fail(
        "RG0702", f"a {x.type} has no field {key!r:.40}", node, near or f"its fields, from 0 on, are {', '.join(names)}"
    )


def _key_of(cx: Context, x: StructValue, node: ast.Subscript) -> Any:
    """The name or position of a field, known when the program is compiled."""
    if x.type.is_tuple and not isinstance(cx.value(node.slice), Constant):
        tuple_ = shortened(node.value)
        hint = f"Go through the items: `for i, x in enumerate({tuple_}):`; or use an array, whose indices may vary."
        message = (
            f"`{shortened(node.slice)}` is not known when the program is compiled, and `{tuple_}` is {describe(x)}"
        )
        cx.fail("RG0717", message, node.slice, hint)
    return cx.static(node.slice, f"the field in `{shortened(node)}`")


def chosen_function(cx: Context, node: ast.expr) -> tuple[list[FunctionValue], E] | None:
    """(functions, index) of `fs[i]`, where fs is a list of functions and i is known only when the program runs."""
    if not isinstance(node, ast.Subscript) or isinstance(node.slice, ast.Slice | ast.Tuple):
        return None
    x, index = cx.value(node.value), cx.value(node.slice)
    if not isinstance(index, Scalar):
        return None
    if isinstance(x, StructValue) and x.type.is_tuple:
        functions = [*x.fields.values()]
    elif isinstance(x, Constant) and isinstance(x.value, tuple | list):
        functions = [cx.wrap(f) for f in x.value]
    else:
        return None
    found = [f for f in functions if isinstance(f, FunctionValue)]
    if not found or len(found) != len(functions):
        return None
    if isinstance(x, Constant):
        cx.captures.contents(x.value)
    # A table of the numbers of the functions, read at the index, which is thereby tested.
    numbers = cx.constant_array(range(len(found)), node)
    return found, cx.number(_index_view(cx, numbers, [node.slice], node), node)


def _new_axis(cx: Context, key: ast.expr) -> bool:
    """Whether a key is None or np.newaxis: an axis of length 1."""
    if isinstance(key, ast.Constant):
        return key.value is None
    return isinstance(key, ast.Attribute) and key.attr == "newaxis" and cx.value(key) == Constant(None)


def _index_view(cx: Context, x: ArrayView, keys: Sequence[ast.expr], node: ast.AST) -> Value:
    axis = 0
    for key in keys:
        if _new_axis(cx, key):
            shape, strides = (*x.shape[:axis], 1, *x.shape[axis:]), (*x.strides[:axis], 1, *x.strides[axis:])
            x = ArrayView(x.element, shape, strides, x.address, x.why_not)
            axis += 1
            continue
        if isinstance(key, ast.Slice):
            first, length, step, checks = _slice(cx, key, x.shape[axis])
            address = x.at(first, axis, checks)
            shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
            strides = (*x.strides[:axis], x.strides[axis] * step, *x.strides[axis + 1 :])
            x = ArrayView(x.element, shape, strides, address, x.why_not)
            axis += 1
            continue
        index, checks = _index(cx, key, x.shape[axis], node, None if len(x.shape) == 1 else keys.index(key))
        x = x.without(axis, x.at(index, axis, checks))
    return x if x.shape else x.item()


def _index_lazy(cx: Context, x: Lazy, keys: Sequence[ast.expr], node: ast.AST) -> Value:
    picks: list[tuple[E, int] | E | None] = []
    shape: list[Length] = []
    given = sum(not _new_axis(cx, k) for k in keys)
    axis = -1
    for key in (*keys, *(ast.Slice() for _ in x.shape[given:])):
        if _new_axis(cx, key):
            picks.append(None)
            shape.append(1)
            continue
        axis += 1
        length = x.shape[axis]
        if isinstance(key, ast.Slice):
            first, count, step, checks = _slice(cx, key, length)
            if checks:
                _refuse_tested(cx, node)
            picks.append((first, step))
            shape.append(count)
        else:
            index, checks = _index(cx, key, length, node, None if len(x.shape) == 1 else axis)
            if checks:
                _refuse_tested(cx, node)
            picks.append(index)

    def pick(index: tuple[E, ...]) -> Value:
        rest = iter(index)
        full = []
        for p in picks:
            if p is None:
                next(rest)
            elif isinstance(p, E):
                full.append(p)
            else:
                first, step = p
                i = next(rest)
                scaled = cx.arithmetic.binary("*", Scalar(i), Constant(step))
                assert isinstance(scaled, Scalar)
                full.append(add(first, scaled.e, cx.w))
        return x.element(tuple(full))

    return Lazy(tuple(shape), pick) if shape else pick(())


def _refuse_tested(cx: Context, node: ast.AST) -> NoReturn:
    message = "an element of an array expression is picked by an index that is known to be in range"
    hint = "Give the expression a name first, `t = …`, which makes an array of it; or index its operands."
    cx.fail("RG0717", message, node, hint)


def _index_stack(cx: Context, x: StackValue, node: ast.Subscript) -> Value:
    """`s[i]`: the element i from the bottom; `s[-i]`: that from the top."""
    if isinstance(node.slice, ast.Slice | ast.Tuple):
        cx.fail("RG0701", f"`{shortened(node)}`: a stack has one index, and no slices", node)
    e = cx.integer(node.slice)
    key, stack = shortened(node.slice), shortened(node.value)
    if e.op == "const" and e.param < 0:
        return word_of_stack(cx, x, add(count_of(x), e, cx.w), f"the stack `{stack}` has no word `{key}`", node)
    return word_of_stack(cx, x, e, f"`{key}` is no index of a word on the stack `{stack}`", node)


def word_of_stack(cx: Context, x: StackValue, index: E, message: str, node: ast.AST) -> Value:
    """The element of a stack at an index, with the test that 0 ≤ index < count."""
    w, span, element = cx.w, cx.span(node), x.type.element
    below = sub(sub(count_of(x), const(1, INT), w), index, w)
    checks = [InRange(e, x.type.capacity, message, span) for e in (index, below)]
    return stored(element, x.address.moved(1).shifted(index, element.size, *checks), x.why_not)


def _index(
    cx: Context, key: ast.expr, length: Length, node: ast.AST, axis: int | None
) -> tuple[E, tuple[InRange, ...]]:
    """An index, and its bounds checks unless the index is certainly in range."""
    _require_index(cx, key, node)
    e = cx.integer(key)
    if isinstance(length, RunLength):
        return _index_of_run(cx, e, length, key, node)
    atoms, constant = linear(e)
    if not atoms and -length <= constant < length:
        return const(constant % length, INT), ()
    bounds = interval(e, cx.builder.ranges) if atoms else None
    if bounds is not None and bounds[0] >= 0 and bounds[1] < length:
        return e, ()
    array = f"`{shortened(node.value if isinstance(node, ast.Subscript) else node)}`"
    has = f"{array} has length {length}" if axis is None else f"axis {axis} of {array} has length {length}"
    if not atoms:
        known = "the index is" if isinstance(key, ast.Constant | ast.UnaryOp) else f"`{shortened(key)}` is"
        cx.fail("RG0713", f"{known} {constant}, and {has}", key)
    if bounds is not None and (bounds[1] < 0 or bounds[0] >= length):
        runs = f"is {bounds[0]}" if bounds[0] == bounds[1] else f"runs from {bounds[0]} to {bounds[1]}"
        cx.fail("RG0713", f"`{shortened(key)}` {runs}, and {has}", key)
    message = f"`{shortened(key)}` is {{a}}, and {has}"
    return e, (InRange(e, length, message, cx.span(key)),)


def _require_index(cx: Context, key: ast.expr, node: ast.AST) -> None:
    """Refuse a mask, a list or a text."""
    found = cx.value(key)
    if isinstance(found, Scalar) or (
        isinstance(found, Constant) and not isinstance(found.value, str | tuple | list | np.ndarray)
    ):
        return
    array = shortened(node.value if isinstance(node, ast.Subscript) else node)
    hint = f"Index one element at a time, in a loop, or take a slice: `{array}[:2]`."
    if isinstance(found, Lazy | ArrayView):
        hint = f"Choose by a condition: `rg.select({shortened(key)}, {array}, 0.0)`; or test each element in a loop."
    if isinstance(found, Constant) and isinstance(found.value, str):
        hint = "Arrays are indexed by integers; fields of structs have names: `p.x`."
    cx.fail("RG0703", f"`{shortened(key)}` is {describe(found)}, and no index", key, hint)


def _index_of_run(cx: Context, e: E, length: RunLength, key: ast.expr, node: ast.AST) -> tuple[E, tuple[InRange, ...]]:
    """An index along an axis whose length is known when the program runs; a negative constant counts from the end."""
    w = cx.w
    if e.op == "const" and e.param < 0:
        e = add(length.e, e, w)
    below = sub(sub(length.e, const(1, INT), w), e, w)
    bounds = [interval(x, cx.builder.ranges) for x in (e, below)]
    if all(b is not None and b[0] >= 0 for b in bounds):
        return e, length.checks
    array = shortened(node.value if isinstance(node, ast.Subscript) else node)
    message = f"`{shortened(key)}` is no index of `{array}`"
    checks = [InRange(x, length.most, message, cx.span(key)) for x in (e, below)]
    return e, (*length.checks, *checks)


def _slice(cx: Context, key: ast.Slice, length: Length) -> Sliced:
    """The slice of an axis of this length."""
    step = 1 if key.step is None else cx.static_int(key.step, "the step of a slice")
    if step == 0:
        cx.fail("RG0713", "the step of a slice is zero", key)
    lower, upper = (None if end is None else cx.whole(cx.value(end), end) for end in (key.lower, key.upper))
    if lower is upper is None and step == 1:
        return Sliced(const(0, INT), length, 1)
    if isinstance(length, int) and all(e is None or e.op == "const" for e in (lower, upper)):
        ends = [None if e is None else cx.w.signed(e.param) for e in (lower, upper)]
        start, stop, step = slice(ends[0], ends[1], step).indices(length)
        return Sliced(const(cx.w.signed(start), INT), len(range(start, stop, step)), step)
    return _slice_of_run(cx, key, length, lower, upper, step)


def _slice_of_run(cx: Context, key: ast.Slice, length: Length, lower: E | None, upper: E | None, step: int) -> Sliced:
    """A slice with an end that is known when the program runs. Tested, unless it is certain: 0 ≤ first ≤ stop ≤ length."""
    w = cx.w
    if step < 0:
        message = "a slice that goes backward has constant ends"
        hint = "Go through the indices in a loop, `for i in reversed(range(…))`, or reverse the whole array, `x[::-1]`."
        cx.fail("RG0717", message, key, hint)
    whole = value_of(length)
    first, stop = (
        add(whole, e, w) if e.op == "const" and e.param < 0 else e
        for e in (const(0, INT) if lower is None else lower, whole if upper is None else upper)
    )
    span = sub(stop, first, w)
    atoms, constant = linear(span)
    if not atoms:
        span = const(constant, INT)
    text, most = f"the slice `{shortened(key)}`", bound(length)
    has = f"its axis has length {length}" if isinstance(length, int) else "its axis is shorter"
    tests = [(first, f"{text} begins at {{a}}, and {has}"), (stop, f"{text} ends at {{a}}, and {has}")]
    tests.append((span, f"{text} ends before it begins: its length would be {{a}}"))
    if isinstance(length, RunLength):
        tests.append((sub(whole, stop, w), f"{text} ends after its axis"))
    at = cx.span(key)
    checks = tuple(InRange(e, most + 1, message, at) for e, message in tests if not _within(cx, e, most))
    if isinstance(length, RunLength):
        checks = (*length.checks, *checks)
    if span.op == "const":
        return Sliced(first, max(0, -(-span.param // step)), step, checks)
    limits = interval(span, cx.builder.ranges)
    most = most if limits is None else max(0, min(limits[1], most))
    if step > 1:
        span = apply("div", INT, add(span, const(step - 1, INT), w), const(step, INT))
        most = -(-most // step)
    shown = ast.unparse(key.upper) if key.upper is not None and key.lower is None and step == 1 else "…"
    return Sliced(first, RunLength(span, most, checks, shown, cx.builder.meaning(span)), step)


def _within(cx: Context, e: E, most: int) -> bool:
    """Whether certainly 0 ≤ e ≤ most."""
    limits = interval(e, cx.builder.ranges)
    return limits is not None and limits[0] >= 0 and limits[1] <= most


def _constant_item(cx: Context, array: Any, keys: Sequence[ast.expr], node: ast.AST) -> Value | None:
    """The item of a constant array at constant indices, or None where one is not constant."""
    index: list[Any] = []
    for key in keys:
        if isinstance(key, ast.Slice):
            ends = [None if e is None else cx.value(e) for e in (key.lower, key.upper, key.step)]
            if not all(e is None or isinstance(e, Constant) for e in ends):
                return None
            for e in ends:
                cx.guarded(key, need_plain, e.value if isinstance(e, Constant) else None)
            index.append(slice(*(e.value if isinstance(e, Constant) else None for e in ends)))
            continue
        value = cx.value(key)
        if not isinstance(value, Constant):
            return None
        cx.guarded(key, need_plain, value.value)
        index.append(value.value)
    try:
        found = array[index[0]] if len(index) == 1 else np.asarray(array)[tuple(index)]
    except (IndexError, KeyError):
        shape = np.shape(array) if isinstance(array, np.ndarray) else (len(array),)
        array_text = shortened(getattr(node, "value", node))
        message = f"`{shortened(node)}` is no element: `{array_text}` has the shape {shape}"
        cx.fail("RG0713", message, node)
    except (TypeError, ValueError):
        cx.fail("RG0703", f"`{shortened(node)}` is no element: indices are integers", node)
    return cx.wrap(found.item() if isinstance(found, np.ndarray) and found.ndim == 0 else found)


# -----------------------------------------------------------------------------
# Other shapes of an array: `a.reshape(2, -1)`, `a.ravel()`, `a.flatten()`, `np.reshape(a, (2, 3))`, in row-major order.
#
# As in NumPy the new array has the words of a where strides reach them in the new order, for `ravel` without gaps.
# Else, and for `flatten`, it is a value, and a name of it is a copy.


def reshaped(cx: Context, x: ArrayView | Lazy, name: str, wanted: Sequence[Value], node: ast.Call) -> Value:
    """The elements of an array in row-major order, in another shape. Raises RG0712 for a shape of another size."""
    if node.keywords:
        message = f"`{shortened(node)}` takes no keywords here: the order of elements is by rows"
        cx.fail("RG0715", message, node, "By columns: write `x.T.reshape(…).T`, with the lengths in opposite order.")
    if not is_known(x.shape):
        hint = "Index it, `a[k * n + j]`, or give the array its greatest length."
        cx.fail("RG0717", f"the shape of `{shortened(node)}` is known only when the program runs", node, hint)
    size = prod(x.shape)
    if name == "reshape":
        lengths = [_shape_of(cx, v, node) for v in wanted]
        shape = lengths[0] if len(lengths) == 1 else tuple(n for part in lengths for n in part)
    elif wanted:
        cx.fail("RG0715", f"`{shortened(node)}` takes no arguments", node)
    else:
        shape = (size,)
    others = prod(n for n in shape if n != -1)
    if shape.count(-1) == 1 and others and size % others == 0:
        shape = tuple(size // others if n == -1 else n for n in shape)
    if prod(shape) != size or any(n < 0 for n in shape):
        message = f"`{shortened(node)}` gives the {size} elements of {describe(x)} the shape {shape}"
        cx.fail("RG0712", message, node, "The product of the lengths is the number of elements; one length may be -1.")
    if not shape:
        return first_of(x)
    strides = _strides_of(x, shape) if isinstance(x, ArrayView) and name != "flatten" else None
    # NumPy's ravel copies what does not lie densely.
    dense = name != "ravel" or size < 2 or (isinstance(x, ArrayView) and strides == (x.element.size,))
    if isinstance(x, ArrayView) and strides is not None and dense:
        return replace(x, shape=shape, strides=strides)
    old, w = known(x.shape), cx.w

    def picked(index: tuple[E, ...]) -> Value:
        flat: E = const(0, INT)
        for i, length in zip(index, shape, strict=True):
            flat = add(cx.arithmetic.expression(cx.arithmetic.binary("*", Scalar(flat), Constant(length))), i, w)
        own: list[E] = []
        for length in reversed(old):
            one, n = Scalar(flat), Constant(length)
            own.insert(0, cx.arithmetic.expression(cx.arithmetic.binary("%", one, n)))
            flat = cx.arithmetic.expression(cx.arithmetic.binary("//", one, n))
        return element(x, tuple(own))

    return Lazy(shape, picked)


def _shape_of(cx: Context, given: Value, node: ast.Call) -> tuple[int, ...]:
    """The lengths of one argument of `reshape`: a number or a tuple of numbers."""
    if isinstance(given, Constant):
        items = given.value if isinstance(given.value, tuple | list) else (given.value,)
        if all(number_kind(n) is INT for n in items):
            return tuple(int(n) for n in items)
    message = (
        f"`{shortened(node)}`: a length is {describe(given)}, and no integer that is known when the program is compiled"
    )
    cx.fail("RG0717", message, node, "Give numbers, or lengths such as `len(x)` of arrays whose shape is known.")


def _strides_of(x: ArrayView, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides by which the words of x have another shape, or None where no strides reach them in the order of rows.

    Neighbouring axes that are as one axis, stride = length · stride of the next, are joined. Each new axis must lie in
    one of the joined axes.
    """
    if not prod(shape):
        return tuple(1 for _ in shape)
    joined: list[tuple[int, int]] = []
    for n, stride in zip(known(x.shape), x.strides, strict=True):
        if joined and joined[-1][1] == n * stride:
            joined[-1] = joined[-1][0] * n, stride
        elif n != 1:
            joined.append((n, stride))
    remaining = iter(joined)
    out, left, inner = [], 1, 1
    for n in shape:
        if n != 1 and left == 1:
            left, inner = next(remaining)
        if left % n:
            return None
        left //= n
        out.append(inner * left)
    return tuple(out)


# -----------------------------------------------------------------------------
# Views that are bijections: expressions of a variable through which the variable can be changed.
#
#     -x    2 * x    x / 4    3 * z    3 / z (z a lognum)    ~n    not b    fixed(n)    int(x)    lognum(x)    fixed(z)
#     z.conjugate()
#
#     x seen through v:   x := v(x);  use;  x := v⁻¹(x)
#
# A view that keeps the type of the word and has an inverse for all words is one instruction on the word: −x, ~n, c · z, and of z̄ the
# imaginary part. Any other view
# moves the word to another variable, m = v(x), and the program tests that v⁻¹(m) is x, here and after the use:
#
#     m += v(x);  x −= v⁻¹(m);  test x = 0;    use of m;    x += v⁻¹(m);  m −= v(x);  test m = 0
#
# Trap: of the views that are tested, 2 · x, int(x) and fixed(n) have an inverse for each value that fits; lognum(x) for values whose
# logarithm is not rounded to that of another number.


def made_by(kind: Kind) -> str:
    """The update that makes a number of the kind from a variable that is zero."""
    return {BOOL: "xor", LOGNUM: "mul"}.get(kind, "add")


#: kinds between which there is a view, and back
_CONVERTED = (
    (INT, FIXED), (FIXED, INT), (FIXED, LOGNUM), (LOGNUM, FIXED), (INT, BOOL), (BOOL, INT), (INT, UINT), (UINT, INT), (UINT, BOOL),
    (BOOL, UINT),
)  # fmt: skip

#: a hint
VIEWS = "Views are -x, 2 * x and x / 4 (powers of two), c * z and c / z of a lognum, ~n, not b, fixed(n), int(x), uint(n), lognum(x), z.conjugate(), x.T, x.reshape(n, m), slices, and these of each other."


@dataclass(frozen=True)
class Step:
    """A bijection of words of one kind to words of another. `text`: of the whole view, for messages.

    `in_place`: the instruction on a variable, where one does it; else `forward` and `back` are expressions of the word.
    `part`: the field of a complex number that it turns; None for all words.
    """

    text: str
    kind: Kind
    in_place: Callable[[Var], Op] | None = None
    forward: Callable[[E], E] | None = None
    back: Callable[[E], E] | None = None
    part: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class View:
    """A variable, array or struct, and the steps from its words to those of the view."""

    place: Value
    steps: tuple[Step, ...] = ()

    @property
    def value(self) -> Value:
        """The view of an array or struct, whose words stay where they are."""
        return _of_kind(self.place, self.steps[-1].kind) if self.steps else self.place

    @property
    def kind(self) -> Kind | None:
        """The kind of all words of the view, or None where there are several."""
        return self.steps[-1].kind if self.steps else _kind_of(self.place)

    def of_field(self, name: str) -> View | None:
        """The view of one field of a struct, or None where it has no such field."""
        if not isinstance(self.place, StructValue) or name not in self.place.fields:
            return None
        return View(self.place.fields[name], tuple(s for s in self.steps if s.part in (None, name)))


def view_of(cx: Context, node: ast.expr) -> View | None:
    """The view that an expression is, or None."""
    match node:
        case ast.UnaryOp(ast.USub() | ast.Invert() | ast.Not() as sign, operand):
            inner = _view_of_operand(cx, operand)
            return inner and _extended(cx, inner, node, lambda kind: _turned(cx, sign, kind, node))
        case ast.BinOp(left, ast.Mult() | ast.Div() | ast.FloorDiv() as op, right):
            factor, operand = _factor_of(cx, right), left
            if factor is None and isinstance(op, ast.Mult):
                factor, operand = _factor_of(cx, left), right
            if factor is None and isinstance(op, ast.Div) and (over := _factor_of(cx, left)):
                dividend, inner = over, _view_of_operand(cx, right)
                return inner and _extended(cx, inner, node, lambda kind: _quotient(cx, dividend, kind, node))
            if not factor:
                return None
            by = factor
            inner = _view_of_operand(cx, operand)
            return inner and _extended(cx, inner, node, lambda kind: _scaled(cx, op, by, kind, node))
        case ast.Call(ast.Attribute(operand, "conjugate" | "conj"), [], []):
            return _conjugate_view(cx, operand, node)
        case ast.Call(func, [operand], []) if isinstance(func, ast.Name | ast.Attribute):
            f = cx.value(func)
            if isinstance(f, Constant) and is_conjugation(f.value):
                return _conjugate_view(cx, operand, node)
            wanted = scalar_of(f.value) if isinstance(f, Constant) else None
            if wanted is None:
                return None
            to, inner = wanted.kind, _view_of_operand(cx, operand)
            return inner and _extended(cx, inner, node, lambda kind: _turned_into(cx, to, kind, node))
    return None


def _view_of_operand(cx: Context, node: ast.expr) -> View | None:
    """The view of an operand: a place by itself has no steps."""
    found = view_of(cx, node)
    if found is not None:
        return found
    value = cx.value(node)
    return View(value) if _writable(value) else None


def _conjugate_view(cx: Context, operand: ast.expr, node: ast.expr) -> View | None:
    """z̄ of a complex number or an array of these; a real number is its own conjugate."""
    inner = _view_of_operand(cx, operand)
    if inner is None or not _is_complex(inner.place):
        return inner
    span = cx.span(node)
    negate: Callable[[Var], Op] = lambda d: Op(TABLE["neg"], d, None, None, 0, span)  # noqa: E731
    return View(inner.place, (*inner.steps, Step(shortened(node), FIXED, negate, part="im")))


def _factor_of(cx: Context, node: ast.expr) -> Fraction | None:
    value = cx.value(node)
    if not isinstance(value, Constant) or number_kind(value.value) not in (INT, FIXED):
        return None
    try:
        return Fraction(value.value)
    except (OverflowError, ValueError):
        return None


def _extended(cx: Context, inner: View, node: ast.expr, made: Callable[[Kind], Step | None]) -> View | None:
    """The view with one more step, where there is such a step."""
    kind = inner.kind
    step = None if kind is None else made(kind)
    if step is None or (step.kind is not kind and not _of_scalars(inner.place)):
        return None
    return View(inner.place, (*inner.steps, step))


def _turned(cx: Context, op: ast.unaryop, kind: Kind, node: ast.expr) -> Step | None:
    """−x, ~n, not b: their own inverses."""
    text, span = shortened(node), cx.span(node)
    match op, kind:
        case ast.USub(), _ if kind.is_fixed or kind in (INT, UINT):
            return Step(text, kind, lambda d: Op(TABLE["neg"], d, None, None, 0, span))
        case ast.USub(), Kind.LOGNUM:
            minus = Const(cx.w.sign)
            return Step(text, kind, lambda d: Op(TABLE["lmov.mul"], d, minus, None, 0, span))
        case ast.Invert(), (Kind.INT | Kind.UINT):
            return Step(text, kind, lambda d: Op(TABLE["not"], d, None, None, 0, span))
        case ast.Not(), Kind.BOOL:
            return Step(text, kind, lambda d: Op(TABLE["mov.xor"], d, Const(1), None, 0, span))
    return None


def _scaled(cx: Context, op: ast.operator, factor: Fraction, kind: Kind, node: ast.expr) -> Step | None:
    """c · x: of a lognum for each c, of other numbers for powers of two."""
    text, span, w = shortened(node), cx.span(node), cx.w
    if kind is LOGNUM and not isinstance(op, ast.FloorDiv):
        by = cx.guarded(node, cx.builder.module.constants.number, float(factor), LOGNUM)
        names = ("*", "/") if isinstance(op, ast.Mult) else ("/", "*")
        if by.op != "const":
            return Step(text, kind, None, *(_by(cx, name, by) for name in names))
        word = Const(w.wrap(by.param))
        opcode = TABLE["lmov.mul" if isinstance(op, ast.Mult) else "lmov.div"]
        return Step(text, kind, lambda d: Op(opcode, d, word, None, 0, span))
    shift = _exponent(factor)
    if shift is None or (isinstance(op, ast.FloorDiv) if kind.is_fixed else isinstance(op, ast.Div)):
        return None
    up = shift if isinstance(op, ast.Mult) else -shift
    if kind is FIXED and -w.frac <= up <= w.frac and abs(up) < w.width - w.frac - 1:
        factors = constant(Fraction(2) ** up, FIXED, w), constant(Fraction(2) ** -up, FIXED, w)
        return Step(text, kind, None, *(_by(cx, "*", by) for by in factors))
    if kind in (INT, UINT) and abs(up) < w.width:
        ways = [_by(cx, symbol, const(abs(up), INT)) for symbol in ("<<", ">>")]
        forward, back_ = ways if up >= 0 else ways[::-1]
        return Step(text, kind, None, forward, back_)
    return None


def _quotient(cx: Context, dividend: Fraction, kind: Kind, node: ast.expr) -> Step | None:
    """c / z of a lognum: its own inverse."""
    if kind is not LOGNUM:
        return None
    c = cx.guarded(node, cx.builder.module.constants.number, float(dividend), LOGNUM)
    divided: Callable[[E], E] = lambda e: _scalar(cx.arithmetic.binary("/", Scalar(c), Scalar(e)))  # noqa: E731
    return Step(shortened(node), kind, None, divided, divided)


def _by(cx: Context, symbol: str, operand: E) -> Callable[[E], E]:
    """e -> e ∘ operand."""
    arithmetic = cx.arithmetic
    return lambda e: _scalar(arithmetic.binary(symbol, Scalar(e), Scalar(operand)))


def _turned_into(cx: Context, wanted: Kind, kind: Kind, node: ast.expr) -> Step | None:
    """fixed(n), int(x), lognum(x) and their like."""
    if (kind, wanted) not in _CONVERTED:
        return None
    return Step(shortened(node), wanted, None, _conversion(cx, kind, wanted), _conversion(cx, wanted, kind))


def _conversion(cx: Context, kind: Kind, wanted: Kind) -> Callable[[E], E]:
    arithmetic = cx.arithmetic
    if (kind, wanted) == (FIXED, INT):
        return lambda e: _scalar(arithmetic.function("floor", [Scalar(e)]))
    return lambda e: _scalar(arithmetic.conversion(wanted, Scalar(e)))


def lend(cx: Context, view: View, node: ast.expr, name: str = "") -> tuple[Block, Value]:
    """(statements that turn the variable into the view, the view as a place). Their inverse turns it back. `name`: that of the view."""
    return _lend_steps(cx, view.place, view.steps, node, name)


def _lend_steps(cx: Context, place: Value, steps: Sequence[Step], node: ast.expr, name: str) -> tuple[Block, Value]:
    if not steps:
        return (), place
    match place:
        case Scalar(_, Var() as x):
            nodes: list[Node] = []
            for step in steps:
                x = _stepped(cx, nodes, step, x, node, None, name)
            return tuple(nodes), variable(x)
        case Scalar(_, Address() as at):
            return _lend_word(cx, at, place.kind, steps, node), _of_kind(place, steps[-1].kind)
        case StructValue(t, fields):
            views = {f: View(place, tuple(steps)).of_field(f) for f in fields}
            parts = {
                f: _lend_steps(cx, v.place, v.steps, node, f"{name}.{f}" if name else "") for f, v in views.items() if v
            }
            return tuple(n for block, _ in parts.values() for n in block), StructValue(
                t, {f: v for f, (_, v) in parts.items()}
            )
        case ArrayView(_, shape):
            return _lend_elements(cx, place, shape, steps, node), _of_kind(place, steps[-1].kind)
    raise TypeError(place)


def _lend_elements(
    cx: Context, place: ArrayView, shape: Sequence[Length], steps: Sequence[Step], node: ast.expr
) -> Block:
    if is_empty(shape):
        return ()
    span = cx.span(node)
    indices = [Var(f"i{n}", INT, span) for n in range(len(shape))]
    for var, length in zip(indices, shape, strict=True):
        note_range(cx.builder.ranges, var, length, cx.w)
    block, _ = _lend_steps(cx, element(place, tuple(read(i) for i in indices)), steps, node, "")
    t = cx.builder.temporaries()
    return t.wrap(t.loops(indices, shape, block))


def _lend_word(cx: Context, at: Address, kind: Kind, steps: Sequence[Step], node: ast.expr) -> Block:
    """The word is exchanged into a variable, and back when it is turned."""
    t, span = cx.builder.temporaries(), cx.span(node)
    held = Var(at.region.name_of_word, kind, span)
    nodes: list[Node] = [Local(held, False, span), t.memory("exch", held, at)]
    left = held
    for step in steps:
        left = _stepped(cx, nodes, step, left, node, at.region)
    nodes += [t.memory("exch", left, at), Delocal(left, False, span)]
    return t.wrap(tuple(nodes))


def _stepped(
    cx: Context, nodes: list[Node], step: Step, x: Var, node: ast.expr, region: Region | None, name: str = ""
) -> Var:
    """Append one step on a variable; the variable that has the word afterwards. Without a region x stays, and is zero."""
    if step.in_place is not None:
        nodes.append(step.in_place(x))
        return x
    assert step.forward is not None
    assert step.back is not None
    span, whole = cx.span(node), step.text
    m = Var(name or x.name, step.kind, span)
    made = made_by(step.kind)
    nodes += [
        Local(m, False, span),
        Check(Test("eq", m, ZERO), "RG0814", f"`{whole}` was changed to a value without an inverse: {_rest(m)}", span),
        *_updated(cx, m, made, step.forward(read(x)), True),
        *_updated(cx, x, OPPOSITE[made_by(x.kind)], step.back(read(m)), False),
        Check(Test("eq", x, ZERO), "RG0814", f"`{whole}` has no inverse here: {_rest(x)}", span),
    ]
    if region is not None:
        nodes.append(Delocal(x, False, span))
    return m


def _updated(cx: Context, d: Var, update: str, e: E, fresh: bool) -> Block:
    t = cx.builder.temporaries()
    body: list[Node] = []
    t.into(body, d, update, e, fresh)
    return t.wrap(tuple(body))


def _rest(x: Var) -> str:
    return "back and forth leave the factor {a}" if x.kind is LOGNUM else "back and forth leave {a}"


def _scalar(value: Value) -> E:
    assert isinstance(value, Scalar)
    return value.e


def _exponent(factor: Fraction) -> int | None:
    """k with factor = 2^k, or None."""
    top, bottom = factor.numerator, factor.denominator
    if top <= 0 or top & top - 1 or bottom & bottom - 1:
        return None
    return top.bit_length() - bottom.bit_length()


def _writable(value: Value) -> bool:
    """Whether a value is a place, all of which may be changed."""
    found = [*parts(value)]
    return bool(found) and all(
        isinstance(x, ArrayView | Scalar) and x.why_not is None and getattr(x, "place", x) is not None for x in found
    )


def _kind_of(value: Value) -> Kind | None:
    """The kind of all words of a place, or None where there are several."""
    match value:
        case Scalar():
            return value.kind
        case ArrayView(ScalarType(kind)):
            return kind
        case ArrayView():
            return _kind_of(element(value, tuple(const(0, INT) for _ in value.shape)))
        case StructValue(_, fields):
            found = {_kind_of(v) for v in fields.values()}
            return found.pop() if len(found) == 1 else None
    return None


def _is_complex(value: Value) -> bool:
    """Whether a place is a complex number or an array of complex numbers."""
    t = value.element if isinstance(value, ArrayView) else value.type if isinstance(value, StructValue) else None
    return is_complex(t)


def _of_scalars(value: Value) -> bool:
    """Whether a place is a number or an array of numbers, whose type can be another."""
    return isinstance(value, Scalar) or (isinstance(value, ArrayView) and isinstance(value.element, ScalarType))


def _of_kind(value: Value, kind: Kind) -> Value:
    """The place in memory with words of another kind."""
    match value:
        case Scalar(_, Address() as at, why_not):
            return Scalar(load(at, kind), at, why_not)
        case ArrayView(ScalarType()):
            return replace(value, element=ScalarType(kind))
    return value


def roots(value: Value) -> set[Var | Region]:
    """The variables and stretches of memory that a value lies in."""
    captured = (v for x in parts(value) if isinstance(x, FunctionValue) for _, v in x.captured)
    found: set[Var | Region] = {place if isinstance(place, Var) else place.region for place in places(value)}
    return found.union(*map(roots, captured))
