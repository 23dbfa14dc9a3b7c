"""Indexing `x[i]`, `x[a:b, j]`: views of arrays, with the bounds checks of the indices.

Element i of an axis lies at address + stride · i. A slice changes the first address, the length and the stride.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
from retrograd.compiler.frontends.builder import IRBuilder
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.expressions.lowering import ExpressionLowering
from retrograd.compiler.frontends.python.text import shortened
from retrograd.compiler.ir.expressions import E, InRange, Length, RunLength, add, apply, const, interval, linear, sub
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.purity import need_container, need_plain
from retrograd.compiler.language.types import bound, value_of
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
    stored,
    tuple_value,
)
from retrograd.isa.diagnostics import nearest

INT, UINT = Kind.INT, Kind.UINT


class Sliced(NamedTuple):
    """A slice: its first index, its number of elements, its step, and the conditions under which its elements exist."""

    first: E
    length: Length
    step: int
    checks: tuple[InRange, ...] = ()


@dataclass(eq=False)
class Indexing:
    """Values of subscripts."""

    errors: Errors
    expressions: ExpressionLowering
    builder: IRBuilder

    def lower(self, node: ast.Subscript) -> Value:
        x = self.expressions.value(node.value)
        keys = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if isinstance(x, Constant):
            self.errors.guarded(node.value, need_container, x.value)
            if isinstance(x.value, np.ndarray | list | tuple):
                found = self._constant_item(x.value, keys, node)
                if found is not None:
                    return found
                x = self.expressions.constant_array(x.value, node)
            else:
                index = self.expressions.static(node.slice, "an index into a constant")
                self.errors.guarded(node.slice, need_plain, index)
                try:
                    if isinstance(x.value, dict) and index not in x.value:
                        raise KeyError(index)  # a defaultdict would make the item
                    return self.expressions.wrap(x.value[index])
                except Exception as error:
                    self.errors.fail("RG0703", f"`{shortened(node)}`: {type(error).__name__} {error}", node)
        if isinstance(x, StackValue):
            return self._index_stack(x, node)
        if isinstance(x, StructValue):
            return self._index_struct(x, node)
        if not isinstance(x, ArrayView | Lazy):
            word, hint = shortened(node.value), None
            if isinstance(x, Scalar) and x.kind in (INT, UINT):
                hint = f"Bit i of `{word}` is `{word} >> i & 1`; `{word} ^= 1 << i` turns it over. Bits i to j − 1 are `{word} >> i & (1 << j - i) - 1`."
            self.errors.fail("RG0703", f"{describe(x)} cannot be indexed", node, hint)
        if any(isinstance(k, ast.Constant) and k.value is Ellipsis for k in keys):
            at = next(i for i, k in enumerate(keys) if isinstance(k, ast.Constant) and k.value is Ellipsis)
            given = sum(not self._new_axis(k) for k in keys) - 1
            fill: list[ast.expr] = [ast.Slice() for _ in range(len(x.shape) - given)]
            keys = [*keys[:at], *fill, *keys[at + 1 :]]
        given = sum(not self._new_axis(k) for k in keys)
        if given > len(x.shape):
            self.errors.fail("RG0712", f"{given} indices for {describe(x)}", node)
        return self._index_view(x, keys, node) if isinstance(x, ArrayView) else self._index_lazy(x, keys, node)

    def _index_struct(self, x: StructValue, node: ast.Subscript) -> Value:
        """The field of a struct: `p["w"]` by name, `p[0]` by position, both known when the program is compiled."""
        names = [*x.fields]
        if x.type.is_tuple and isinstance(node.slice, ast.Slice):
            ends = (node.slice.lower, node.slice.upper, node.slice.step)
            bounds = [None if e is None else self.expressions.static_int(e, "the bound of a slice") for e in ends]
            return tuple_value([x.fields[name] for name in names[slice(*bounds)]])
        key = self._key_of(x, node)
        if isinstance(key, str) and key in x.fields:
            return x.fields[key]
        if type(key) is int and -len(names) <= key < len(names):
            return x.fields[names[key]]
        if x.type.is_tuple:
            shown = shortened(node.value)
            self.errors.fail("RG0713", f"`{shortened(node)}` is no item: `{shown}` is {describe(x)}", node)
        near = nearest(key, names) if isinstance(key, str) else None
        self.errors.fail(
            "RG0702",
            f"a {x.type} has no field {key!r:.40}",
            node,
            near or f"its fields, from 0 on, are {', '.join(names)}",
        )

    def _key_of(self, x: StructValue, node: ast.Subscript) -> Any:
        """The name or position of a field, known when the program is compiled."""
        if x.type.is_tuple and not isinstance(self.expressions.value(node.slice), Constant):
            tuple_ = shortened(node.value)
            hint = f"Go through the items: `for i, x in enumerate({tuple_}):`; or use an array, whose indices may vary."
            message = (
                f"`{shortened(node.slice)}` is not known when the program is compiled, and `{tuple_}` is {describe(x)}"
            )
            self.errors.fail("RG0717", message, node.slice, hint)
        return self.expressions.static(node.slice, f"the field in `{shortened(node)}`")

    def chosen_function(self, node: ast.expr) -> tuple[list[FunctionValue], E] | None:
        """(functions, index) of `fs[i]`, where fs is a list of functions and i is known only when the program runs."""
        if not isinstance(node, ast.Subscript) or isinstance(node.slice, ast.Slice | ast.Tuple):
            return None
        x, index = self.expressions.value(node.value), self.expressions.value(node.slice)
        if not isinstance(index, Scalar):
            return None
        if isinstance(x, StructValue) and x.type.is_tuple:
            functions = [*x.fields.values()]
        elif isinstance(x, Constant) and isinstance(x.value, tuple | list):
            functions = [self.expressions.wrap(f) for f in x.value]
        else:
            return None
        found = [f for f in functions if isinstance(f, FunctionValue)]
        if not found or len(found) != len(functions):
            return None
        if isinstance(x, Constant):
            self.expressions.captures.contents(x.value)
        # A table of the numbers of the functions, read at the index, which is thereby tested.
        numbers = self.expressions.constant_array(range(len(found)), node)
        return found, self.expressions.number(self._index_view(numbers, [node.slice], node), node)

    def _new_axis(self, key: ast.expr) -> bool:
        """Whether a key is None or np.newaxis: an axis of length 1."""
        if isinstance(key, ast.Constant):
            return key.value is None
        return (
            isinstance(key, ast.Attribute) and key.attr == "newaxis" and self.expressions.value(key) == Constant(None)
        )

    def _index_view(self, x: ArrayView, keys: Sequence[ast.expr], node: ast.AST) -> Value:
        axis = 0
        for key in keys:
            if self._new_axis(key):
                shape, strides = (*x.shape[:axis], 1, *x.shape[axis:]), (*x.strides[:axis], 1, *x.strides[axis:])
                x = ArrayView(x.element, shape, strides, x.address, x.why_not)
                axis += 1
                continue
            if isinstance(key, ast.Slice):
                first, length, step, checks = self._slice(key, x.shape[axis])
                address = x.at(first, axis, checks)
                shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
                strides = (*x.strides[:axis], x.strides[axis] * step, *x.strides[axis + 1 :])
                x = ArrayView(x.element, shape, strides, address, x.why_not)
                axis += 1
                continue
            index, checks = self._index(key, x.shape[axis], node, None if len(x.shape) == 1 else keys.index(key))
            x = x.without(axis, x.at(index, axis, checks))
        return x if x.shape else x.item()

    def _index_lazy(self, x: Lazy, keys: Sequence[ast.expr], node: ast.AST) -> Value:
        picks: list[tuple[E, int] | E | None] = []
        shape: list[Length] = []
        given = sum(not self._new_axis(k) for k in keys)
        axis = -1
        for key in (*keys, *(ast.Slice() for _ in x.shape[given:])):
            if self._new_axis(key):
                picks.append(None)
                shape.append(1)
                continue
            axis += 1
            length = x.shape[axis]
            if isinstance(key, ast.Slice):
                first, count, step, checks = self._slice(key, length)
                if checks:
                    self._refuse_tested(node)
                picks.append((first, step))
                shape.append(count)
            else:
                index, checks = self._index(key, length, node, None if len(x.shape) == 1 else axis)
                if checks:
                    self._refuse_tested(node)
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
                    scaled = self.expressions.arithmetic.binary("*", Scalar(i), Constant(step))
                    assert isinstance(scaled, Scalar)
                    full.append(add(first, scaled.e, self.builder.w))
            return x.element(tuple(full))

        return Lazy(tuple(shape), pick) if shape else pick(())

    def _refuse_tested(self, node: ast.AST) -> NoReturn:
        message = "an element of an array expression is picked by an index that is known to be in range"
        hint = "Give the expression a name first, `t = …`, which makes an array of it; or index its operands."
        self.errors.fail("RG0717", message, node, hint)

    def _index_stack(self, x: StackValue, node: ast.Subscript) -> Value:
        """`s[i]`: the word i from the bottom; `s[-i]`: that from the top."""
        if isinstance(node.slice, ast.Slice | ast.Tuple):
            self.errors.fail("RG0701", f"`{shortened(node)}`: a stack has one index, and no slices", node)
        e = self.expressions.integer(node.slice)
        key, stack = shortened(node.slice), shortened(node.value)
        if e.op == "const" and e.param < 0:
            return self.word(x, add(count_of(x), e, self.builder.w), f"the stack `{stack}` has no word `{key}`", node)
        return self.word(x, e, f"`{key}` is no index of a word on the stack `{stack}`", node)

    def word(self, x: StackValue, index: E, message: str, node: ast.AST) -> Value:
        """The word of a stack at an index, with the test that 0 ≤ index < count."""
        w, span = self.builder.w, self.errors.span(node)
        below = sub(sub(count_of(x), const(1, INT), w), index, w)
        checks = [InRange(e, x.type.capacity, message, span) for e in (index, below)]
        return stored(x.type.element, x.address.moved(1).shifted(index, 1, *checks), x.why_not)

    def _index(self, key: ast.expr, length: Length, node: ast.AST, axis: int | None) -> tuple[E, tuple[InRange, ...]]:
        """An index, and its bounds checks unless the index is certainly in range."""
        self._require_index(key, node)
        e = self.expressions.integer(key)
        if isinstance(length, RunLength):
            return self._index_of_run(e, length, key, node)
        atoms, constant = linear(e)
        if not atoms and -length <= constant < length:
            return const(constant % length, INT), ()
        bounds = interval(e, self.builder.ranges) if atoms else None
        if bounds is not None and bounds[0] >= 0 and bounds[1] < length:
            return e, ()
        array = f"`{shortened(node.value if isinstance(node, ast.Subscript) else node)}`"
        has = f"{array} has length {length}" if axis is None else f"axis {axis} of {array} has length {length}"
        if not atoms:
            known = "the index is" if isinstance(key, ast.Constant | ast.UnaryOp) else f"`{shortened(key)}` is"
            self.errors.fail("RG0713", f"{known} {constant}, and {has}", key)
        if bounds is not None and (bounds[1] < 0 or bounds[0] >= length):
            runs = f"is {bounds[0]}" if bounds[0] == bounds[1] else f"runs from {bounds[0]} to {bounds[1]}"
            self.errors.fail("RG0713", f"`{shortened(key)}` {runs}, and {has}", key)
        message = f"`{shortened(key)}` is {{a}}, and {has}"
        return e, (InRange(e, length, message, self.errors.span(key)),)

    def _require_index(self, key: ast.expr, node: ast.AST) -> None:
        """Refuse a mask, a list or a text."""
        found = self.expressions.value(key)
        if isinstance(found, Scalar) or (
            isinstance(found, Constant) and not isinstance(found.value, str | tuple | list | np.ndarray)
        ):
            return
        array = shortened(node.value if isinstance(node, ast.Subscript) else node)
        hint = f"Index one element at a time, in a loop, or take a slice: `{array}[:2]`."
        if isinstance(found, Lazy | ArrayView):
            hint = (
                f"Choose by a condition: `rg.select({shortened(key)}, {array}, 0.0)`; or test each element in a loop."
            )
        if isinstance(found, Constant) and isinstance(found.value, str):
            hint = "Arrays are indexed by integers; fields of structs have names: `p.x`."
        self.errors.fail("RG0703", f"`{shortened(key)}` is {describe(found)}, and no index", key, hint)

    def _index_of_run(self, e: E, length: RunLength, key: ast.expr, node: ast.AST) -> tuple[E, tuple[InRange, ...]]:
        """An index along an axis whose length is known when the program runs; a negative constant counts from the end."""
        w = self.builder.w
        if e.op == "const" and e.param < 0:
            e = add(length.e, e, w)
        below = sub(sub(length.e, const(1, INT), w), e, w)
        bounds = [interval(x, self.builder.ranges) for x in (e, below)]
        if all(b is not None and b[0] >= 0 for b in bounds):
            return e, length.checks
        array = shortened(node.value if isinstance(node, ast.Subscript) else node)
        message = f"`{shortened(key)}` is no index of `{array}`"
        checks = [InRange(x, length.most, message, self.errors.span(key)) for x in (e, below)]
        return e, (*length.checks, *checks)

    def _slice(self, key: ast.Slice, length: Length) -> Sliced:
        """The slice of an axis of this length."""
        step = 1 if key.step is None else self.expressions.static_int(key.step, "the step of a slice")
        if step == 0:
            self.errors.fail("RG0713", "the step of a slice is zero", key)
        lower, upper = (
            None if end is None else self.expressions.whole(self.expressions.value(end), end)
            for end in (key.lower, key.upper)
        )
        if lower is upper is None and step == 1:
            return Sliced(const(0, INT), length, 1)
        if isinstance(length, int) and all(e is None or e.op == "const" for e in (lower, upper)):
            ends = [None if e is None else self.builder.w.signed(e.param) for e in (lower, upper)]
            start, stop, step = slice(ends[0], ends[1], step).indices(length)
            return Sliced(const(self.builder.w.signed(start), INT), len(range(start, stop, step)), step)
        return self._slice_of_run(key, length, lower, upper, step)

    def _slice_of_run(self, key: ast.Slice, length: Length, lower: E | None, upper: E | None, step: int) -> Sliced:
        """A slice with an end that is known when the program runs. Tested, unless it is certain: 0 ≤ first ≤ stop ≤ length."""
        w = self.builder.w
        if step < 0:
            message = "a slice that goes backward has constant ends"
            hint = "Go through the indices in a loop, `for i in reversed(range(…))`, or reverse the whole array, `x[::-1]`."
            self.errors.fail("RG0717", message, key, hint)
        whole = value_of(length)
        first, stop = (
            add(whole, e, w) if e.op == "const" and e.param < 0 else e
            for e in (const(0, INT) if lower is None else lower, whole if upper is None else upper)
        )
        span = sub(stop, first, w)
        atoms, constant = linear(span)
        if not atoms:
            span = const(constant, INT)
        text, most = f"the slice `{ast.unparse(key)}`", bound(length)
        has = f"its axis has length {length}" if isinstance(length, int) else "its axis is shorter"
        tests = [(first, f"{text} begins at {{a}}, and {has}"), (stop, f"{text} ends at {{a}}, and {has}")]
        tests.append((span, f"{text} ends before it begins: its length would be {{a}}"))
        if isinstance(length, RunLength):
            tests.append((sub(whole, stop, w), f"{text} ends after its axis"))
        at = self.errors.span(key)
        checks = tuple(InRange(e, most + 1, message, at) for e, message in tests if not self._within(e, most))
        if isinstance(length, RunLength):
            checks = (*length.checks, *checks)
        if span.op == "const":
            return Sliced(first, max(0, -(-span.param // step)), step, checks)
        limits = interval(span, self.builder.ranges)
        most = most if limits is None else max(0, min(limits[1], most))
        if step > 1:
            span = apply("div", INT, add(span, const(step - 1, INT), w), const(step, INT))
            most = -(-most // step)
        shown = ast.unparse(key.upper) if key.upper is not None and key.lower is None and step == 1 else "…"
        return Sliced(first, RunLength(span, most, checks, shown, self.builder.meaning(span)), step)

    def _within(self, e: E, most: int) -> bool:
        """Whether certainly 0 ≤ e ≤ most."""
        limits = interval(e, self.builder.ranges)
        return limits is not None and limits[0] >= 0 and limits[1] <= most

    def _constant_item(self, array: Any, keys: Sequence[ast.expr], node: ast.AST) -> Value | None:
        """The item of a constant array at constant indices, or None where one is not constant."""
        index: list[Any] = []
        for key in keys:
            if isinstance(key, ast.Slice):
                ends = [None if e is None else self.expressions.value(e) for e in (key.lower, key.upper, key.step)]
                if not all(e is None or isinstance(e, Constant) for e in ends):
                    return None
                for e in ends:
                    self.errors.guarded(key, need_plain, e.value if isinstance(e, Constant) else None)
                index.append(slice(*(e.value if isinstance(e, Constant) else None for e in ends)))
                continue
            value = self.expressions.value(key)
            if not isinstance(value, Constant):
                return None
            self.errors.guarded(key, need_plain, value.value)
            index.append(value.value)
        try:
            found = array[index[0]] if len(index) == 1 else np.asarray(array)[tuple(index)]
        except (IndexError, KeyError):
            shape = np.shape(array) if isinstance(array, np.ndarray) else (len(array),)
            array_text = shortened(getattr(node, "value", node))
            message = f"`{shortened(node)}` is no element: `{array_text}` has the shape {shape}"
            self.errors.fail("RG0713", message, node)
        except (TypeError, ValueError):
            self.errors.fail("RG0703", f"`{shortened(node)}` is no element: indices are integers", node)
        return self.expressions.wrap(found.item() if isinstance(found, np.ndarray) and found.ndim == 0 else found)
