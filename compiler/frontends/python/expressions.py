"""Values of names, operators, and functions of Python that the language has under another name; comprehensions.

`value` of the context dispatches here by syntax. Values in which a call or an index occurs are in `calls.py` and
`indexing.py`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from math import prod
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from retrograd.compiler.frontends.python.context import Context, decides, evaluates
from retrograd.compiler.frontends.python.source import InnerFunction, shortened
from retrograd.compiler.ir.expressions import E, Length, RunLength, const, read
from retrograd.compiler.ir.statements import Kind, Region, Var
from retrograd.compiler.language import complex_numbers, intrinsics
from retrograd.compiler.language.arithmetic import COMPARISONS, element, first_of, kind_of, number_kind
from retrograd.compiler.language.foreign import ALTERNATIVES, NAMES_OF_WRITTEN, OF_ARRAYS, OF_BOOLS, WRITTEN, of_math
from retrograd.compiler.language.lognums import is_lognum
from retrograd.compiler.language.purity import attribute, need_plain
from retrograd.compiler.language.types import (
    OF_DICTS,
    ScalarType,
    StructType,
    bound,
    check_operator,
    check_size,
    is_complex,
    is_empty,
    is_known,
    keys_of,
    merged,
    note_range,
    operands,
    sum_over,
    words_of,
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
    describe,
    is_number,
    read_only,
    tuple_value,
)
from retrograd.isa.diagnostics import nearest

INT, UINT, FIXED, BOOL, LOGNUM = Kind.INT, Kind.UINT, Kind.FIXED, Kind.BOOL, Kind.LOGNUM


# -----------------------------------------------------------------------------
# Names and attributes inside expressions.
#
# A name is a local, a variable of the function around, a global or a built-in, in this order, as in Python.


@evaluates(ast.Constant)
def constant(cx: Context, node: ast.Constant) -> Value:
    return Constant(node.value)


@evaluates(ast.Name)
def name(cx: Context, node: ast.Name) -> Value:
    name = node.id
    if name in cx.scope.names:
        found = cx.scope.names[name]
        _require_live(cx, found, node)
        _note_use(cx, name, found, node)
        return found
    if name in cx.scope.lent:
        cx.fail("RG0705", f"`{name}` {cx.scope.lent[name]} in this block", node, f"Use `{name}` after the block.")
    if name in cx.scope.freed:
        hint = f"Free `{name}` later, or compute it again."
        cx.fail("RG0702", f"`{name}` was freed in line {cx.scope.freed[name].line}", node, hint)
    try:
        return cx.wrap(cx.function.lookup(name, cx.captures))
    except KeyError:
        pass
    made = next((n for n in ast.walk(cx.function.tree) if _makes(n, name)), None)
    if made is not None:
        line = cx.span(made).line
        if line >= cx.span(node).line:
            hint = f"Make `{name}` before this line."
            cx.fail("RG0702", f"`{name}` has no value yet: it is made in line {line}", node, hint)
        message = f"`{name}` is made in line {line}, and freed at the end of the block there"
        way = f"Make `{name}` before that block."
        if isinstance(made, ast.For):
            way = f"Use `{name}` within the loop; after it, write the last value as an expression, such as `n - 1`."
        cx.fail("RG0702", message, node, way)
    if isinstance(cx.function, InnerFunction) and name in cx.function.around:
        message = f"`{name}` is a variable of the function around `{cx.function.__name__}`"
        hint = f"write `nonlocal {name}` at the head of `{cx.function.__name__}` to change it"
        cx.fail("RG0702", message, node, hint)
    known = [n for n in (*cx.scope.names, *cx.function.names()) if n != name and n not in _UNLIKELY]
    cx.fail("RG0702", f"nothing is named `{name}` here", node, nearest(name, known))


def _require_live(cx: Context, f: Value, node: ast.Name) -> None:
    """Refuse an inner function, or a tuple with one, that uses a variable which was freed."""
    if isinstance(f, StructValue) and f.type.is_tuple:
        for item in f.fields.values():
            _require_live(cx, item, node)
    for name, value in f.captured if isinstance(f, FunctionValue) else ():
        _note_use(cx, name, value, node)
        where = next((at for lost, at in cx.scope.lost if lost is value), None)
        if where is not None:
            message = f"`{name}`, which `{node.id}` uses, was freed in line {where.line}"
            cx.fail("RG0702", message, node, f"Free `{name}` later, or define `{node.id}` again.")


def _note_use(cx: Context, name: str, value: Value, node: ast.Name) -> None:
    """Note the use of a borrowed name. Raises RG0731 where its number has changed."""
    held = cx.scope.borrowed.get(name)
    if held is not None and held.value is value:
        cx.require_unchanged(name, held, node)
        held.used = max(held.used, cx.scope.loops)


@evaluates(ast.Attribute)
def attribute_value(cx: Context, node: ast.Attribute) -> Value:
    x = cx.value(node.value)
    name = node.attr
    match x:
        case StructValue(t, fields) if not t.is_tuple:
            if name in fields:
                return fields[name]
            if is_complex(t) and name in ("real", "imag"):
                return fields["re" if name == "real" else "im"]
            if hasattr(type(t.cls), name) or any(name in vars(c) for c in t.cls.__mro__):
                wrapped = _read_attribute(cx, t.cls, name, node)
                if isinstance(wrapped, FunctionValue):
                    return FunctionValue(wrapped.function, wrapped.backward, x)
                if isinstance(wrapped, Constant) and isinstance(wrapped.value, FunctionType):
                    message = f"`{name}` of {t} is a method of Python, which cannot run on a machine"
                    hint = f"Decorate it with @reversible, and let it change a result: `def {name}(self, y): y += …`."
                    cx.fail("RG0701", message, node, hint)
                return wrapped
            known = [*fields, *(n for n in dir(t.cls) if not n.startswith("_"))]
            near = nearest(name, known) or f"its fields are {', '.join(fields)}"
            if name in OF_DICTS and keys_of(t.cls):
                s = shortened(node.value)
                near = (
                    f"a `for` goes through `{s}.{name}()`; `{s}[k]` is the value of the key k, `len({s})` their number"
                )
            cx.fail("RG0702", f"a {t} has no field `{name}`", node, near)
        case StackValue():
            s = shortened(node.value)
            ways = {"append": f"rg.push({s}, x)", "push": f"rg.push({s}, x)", "pop": f"x = rg.pop({s})"}
            way = ways.get(name, f"rg.top({s})` for the last word, `{s}[i]` for another, `len({s})` for their number")
            cx.fail(
                "RG0702",
                f"a stack has no attribute `{name}`",
                node,
                f"write `{way}{'' if way.endswith('number') else '`'}",
            )
        case ArrayView() | Lazy():
            return _array_attribute(cx, x, name, node)
        case Constant(v) if isinstance(v, np.ndarray) and name in ("shape", "size", "ndim", "T"):
            return Constant(getattr(v, name))
        case Constant(v):
            try:
                return _read_attribute(cx, v, name, node)
            except AttributeError:
                close = nearest(name, dir(v))
                if isinstance(v, ModuleType) and v.__name__ == "retrograd":
                    close = intrinsics.NOT_HERE.get(name, close)
                cx.fail("RG0702", f"`{shortened(node.value)}` has no attribute `{name}`", node, close)
        case FunctionValue(backward=backward) if name == "inverse":
            return replace(x, backward=not backward)
    own = shortened(node.value)
    how = f"write `{own}(…)`, and `~{own}(…)` for the inverse" if isinstance(x, FunctionValue) else None
    if isinstance(x, Scalar):
        how = f"a number has no attributes: `{own}` is the number itself"
    cx.fail("RG0702", f"{describe(x)} has no attribute `{name}`", node, how)


def _read_attribute(cx: Context, owner: Any, name: str, node: ast.AST) -> Value:
    """The attribute of a Python object. Raises AttributeError."""
    found = cx.guarded(node, attribute, owner, name)
    cx.captures.attribute(owner, name, found)
    return cx.wrap(found)


def _array_attribute(cx: Context, x: ArrayView | Lazy, name: str, node: ast.Attribute) -> Value:
    match name:
        case "shape" | "size" if not is_known(x.shape):
            message = f"`{shortened(node)}` is known only when the program runs"
            cx.fail("RG0717", message, node, f"`len({shortened(node.value)})` is the first length, as an int.")
        case "shape":
            return Constant(x.shape)
        case "size":
            return Constant(prod(map(bound, x.shape)))
        case "ndim":
            return Constant(len(x.shape))
        case "T" if isinstance(x, ArrayView):
            return ArrayView(x.element, x.shape[::-1], x.strides[::-1], x.address, x.why_not)
        case "T":
            return Lazy(x.shape[::-1], lambda index: element(x, index[::-1]))
        case "conjugate" | "conj" | "dot" | "flatten" | "max" | "mean" | "min" | "ravel" | "reshape" | "sum":
            # A call of it is lowered by its name; here it is a function, and none that another statement looks for.
            return Constant(getattr(np.ndarray, name))
    if isinstance(x, ArrayView) and isinstance(x.element, StructType):
        fields = dict(x.element.fields)
        if is_complex(x.element) and name in ("real", "imag"):
            name = "re" if name == "real" else "im"
        inner = fields.get(name)
        if isinstance(inner, ScalarType):
            # The same field of each element: the same strides, from another word on.
            return ArrayView(inner, x.shape, x.strides, x.address.moved(x.element.offset(name)), x.why_not)
    cx.fail(
        "RG0702",
        f"{describe(x)} has no attribute `{name}`",
        node,
        f"write `rg.{name}({shortened(node.value)})`, with `axis=` where there is one"
        if (found := intrinsics.INTRINSICS.get(name)) is not None and found.role == intrinsics.EXPRESSION
        else "arrays have .shape, .size, .ndim, .T, .reshape(n, m) and .ravel(); len(x) is the length",
    )


def _makes(node: ast.AST, name: str) -> bool:
    """Whether a statement makes a variable of this name."""
    match node:
        case ast.Assign(targets=targets):
            pass
        case ast.AnnAssign(target=target) | ast.For(target=target):
            targets = [target]
        case _:
            return False
    return any(
        isinstance(n, ast.Name) and n.id == name
        for t in targets
        for n in ([t, *t.elts] if isinstance(t, ast.Tuple) else [t])
    )


#: built-in names that are not suggested for a misspelt name
_UNLIKELY = set(vars(builtins)) - {
    "abs", "bool", "enumerate", "float", "int", "len", "max", "min", "print", "range", "reversed", "sum", "zip",
}  # fmt: skip


# -----------------------------------------------------------------------------
# Functions of Python and NumPy on values of a run, where the language has the same function; comprehensions of known lengths.
#
#     math.ceil(x)            -rg.floor(-x)
#     np.clip(x, a, b)        min(max(x, a), b)
#     all((c, d))             c and d, as a bool
#     sum(v * v for v in a)   a[0] * a[0] + a[1] * a[1] + …
#
# A function of constants alone is called by Python itself.

COMPLEX_FUNCTIONS = "Operators and functions such as `rg.exp` take complex numbers."


class Held(ast.expr):
    """A value in place of the syntax that gave it."""

    held: Value
    #: the syntax
    of: ast.AST


@evaluates(Held)
def held_value(cx: Context, node: Held) -> Value:
    return node.held


def held(value: Value, of: ast.AST) -> Held:
    node = Held()
    node.held, node.of = value, of
    return ast.copy_location(node, of)


#: an item of an iteration: a value, or items of several iterations
_Item = Value | tuple[Any, ...]


def _value(item: _Item) -> Value:
    return tuple_value([*map(_value, item)]) if isinstance(item, tuple) else item


def foreign_call(cx: Context, callee: Any, args: Sequence[Value], node: ast.Call) -> Value | None:
    """The value of a call with values of the run; None where the language has no such function."""
    arithmetic = cx.arithmetic
    if getattr(callee, "__module__", None) == "math" and complex_numbers.among(args):
        cx.fail("RG0703", f"`{shortened(node.func)}` takes real numbers", node, COMPLEX_FUNCTIONS)
    if callee is all or callee is any:
        if len(args) != 1:
            return None
        truths = [cx.guarded(node, arithmetic.truth, v) for v in cx.items(args[0], node.args[0])]
        return Scalar(arithmetic.both(truths, callee is all)) if truths else Constant(callee is all)
    if callee is divmod and len(args) == 2:
        return tuple_value([cx.guarded(node, arithmetic.binary, op, *args) for op in ("//", "%")])
    if callee in (np.full, np.full_like, np.zeros_like, np.ones_like):
        return _filled_array(cx, callee, args, node)
    template = _template(cx, callee, len(args))
    if template is None:
        return None
    names = sorted({n.id for n in ast.walk(template) if isinstance(n, ast.Name)} & {"x", "y", "z"})
    if len(names) != len(args):
        return None
    places = node.args if len(node.args) == len(args) else [node] * len(args)
    if callee in OF_BOOLS and all(map(_is_bool, args)):
        text = OF_BOOLS[callee]
        if text is None:
            message = f"`{shortened(node.func)}` of bools has no value in NumPy"
            text = ALTERNATIVES[callee.__name__].format(**dict(zip("xyz", map(shortened, places), strict=False)))
            cx.fail("RG0703", message, node, f"write `{text}`, in which a bool is 0 or 1")
        template = ast.parse(text, mode="eval").body
    if callee is np.var and complex_numbers.among([first_of(v) for v in args]):
        x = shortened(places[0])
        hint = f"write `np.var({x}.real) + np.var({x}.imag)`"
        cx.fail("RG0703", f"`{shortened(node)}` takes real numbers", node, hint)
    if callee in OF_ARRAYS and callee not in (np.dot, np.matmul):
        for v, at in zip(args, places, strict=True):
            if not isinstance(v, ArrayView | Lazy | Constant):
                message = f"`{shortened(at)}` is {describe(v)}; `{shortened(node.func)}` takes arrays"
                cx.fail("RG0703", message, at, "write `*` for the product of numbers" if len(args) == 2 else None)
    given = {name: held(v, at) for name, v, at in zip(names, args, places, strict=True)}
    return cx.value(_filled(template, given, node))


def _is_bool(value: Value) -> bool:
    """Whether a value is a bool, or an array of these."""
    if isinstance(value, Constant):
        return isinstance(value.value, bool) or getattr(value.value, "dtype", None) == np.bool
    return kind_of(value) is Kind.BOOL


def _filled_array(cx: Context, callee: Any, args: Sequence[Value], node: ast.Call) -> Value | None:
    """np.full(shape, x), np.full_like(a, x), np.zeros_like(a) and np.ones_like(a): one value in each place."""
    if len(args) != (1 if callee in (np.zeros_like, np.ones_like) else 2):
        return None
    like = args[0]
    value = args[1] if len(args) == 2 else Constant(int(callee is np.ones_like))
    if not isinstance(value, Scalar | Constant):
        return None
    if callee is np.full:
        lengths = (like.value if isinstance(like.value, tuple) else (like.value,)) if isinstance(like, Constant) else ()
        if not lengths or any(type(n) is not int or n < 0 for n in lengths):
            return None
        return Lazy(lengths, lambda _: value)
    kind = kind_of(like) if isinstance(like, ArrayView | Lazy) else None
    if kind is None or not isinstance(like, ArrayView | Lazy):
        return None
    given = value.kind if isinstance(value, Scalar) else number_kind(value.value)
    if kind.is_fixed:
        value = cx.guarded(node, cx.arithmetic.conversion, kind, value)
    elif len(args) == 2 and given is not kind:
        model, number = (shortened(a) for a in node.args)
        message = f"`np.full_like` makes {kind.value} of `{number}`, as `{model}` has {kind.value}"
        cx.fail("RG0703", message, node, f"write `np.full({model}.shape, {number})`")
    return Lazy(like.shape, lambda _: value)


def _template(cx: Context, callee: Any, count: int) -> ast.expr | None:
    """The expression that has the value of a function, over the names x, y, z."""
    try:
        text = WRITTEN.get(callee) or OF_ARRAYS.get(callee)
    except TypeError:  # an object without a hash
        return None
    if text is not None:
        return ast.parse(text, mode="eval").body
    found = intrinsics.library_function(of_math(callee))
    if found is None:
        return None
    parameters: list[ast.expr] = [ast.Name(name, ast.Load()) for name in "xyz"[:count]]
    return ast.Call(held(cx.wrap(found), ast.Constant(0)), parameters, [])


def array_method(cx: Context, x: ArrayView | Lazy, node: ast.Call) -> Value | None:
    """`a.sum(axis=0)`, `a.max()`, `a.dot(b)`; None for other methods."""
    assert isinstance(node.func, ast.Attribute)
    name, array = node.func.attr, held(x, node.func.value)
    if name == "dot" and len(node.args) == 1 and not node.keywords:
        return cx.value(ast.copy_location(ast.BinOp(array, ast.MatMult(), node.args[0]), node))
    if name not in ("sum", "mean", "min", "max"):
        return None
    # `a.sum(0)` is `a.sum(axis=0)`.
    axis = [ast.copy_location(ast.keyword("axis", a), a) for a in node.args]
    function = held(Constant(intrinsics.INTRINSICS[name]), node.func)
    return cx.value(ast.copy_location(ast.Call(function, [array], [*axis, *node.keywords]), node))


def reduced_array(
    cx: Context, name: str, x: ArrayView | Lazy, axes: tuple[int, ...], node: ast.Call, kept: bool = False
) -> Value:
    """The sum, mean, minimum or maximum of an array over some of its axes. `kept`: these remain, with length 1."""
    shape = tuple(x.shape[axis] for axis in axes)
    rest = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
    # A sum of lognums has no 0 to begin with: the sums of the first k elements are kept, as the extremes of the
    # first k are.
    logarithmic = kind_of(x) is LOGNUM
    which = "sum" if logarithmic and name == "mean" else name
    running = logarithmic or name in ("min", "max")
    if running and not is_known(shape[1:]):
        message = f"`{shortened(node)}`: the length of an axis after the first is known only when the program runs"
        hint = "Reduce that axis alone, or give it its greatest length."
        cx.fail("RG0717", message, node, hint)
    if (name != "sum" or logarithmic) and is_empty(shape):
        what = "and its sum is 0, which no lognum can be" if name == "sum" else f"and has no {name}"
        message, hint = f"`{shortened(node)}`: the array is empty, {what}", "Give it an element at least."
        cx.fail("RG0703", message, node, hint)
    indices = tuple(Var(f"i{axis}", INT, cx.span(node)) for axis in axes)
    for var, length in zip(indices, shape, strict=True):
        note_range(cx.builder.ranges, var, length, cx.w)
    region = _running_region(cx, which, shape, node) if running else None
    arithmetic = cx.arithmetic

    def one(index: tuple[E, ...]) -> Value:
        own, around = iter(indices), iter(index)
        whole = tuple(read(next(own)) if axis in axes else next(around) for axis in range(len(x.shape)))
        found = element(x, whole)
        if isinstance(found, StructValue) and is_complex(found.type) and region is None:
            return StructValue(found.type, {f: total_of(v) for f, v in found.fields.items()})
        return total_of(found)

    def total_of(value: Value) -> Value:
        body = arithmetic.expression(value)
        if body.kind is BOOL and running:
            # The least and the largest of bools are bools.
            return Scalar(arithmetic.truth(total_of(Scalar(arithmetic.converted(body, INT)))))
        if body.kind is BOOL:
            body = arithmetic.converted(body, INT)
        if region is not None:
            total = E("running", body.kind, (body, *operands(shape)), (which, indices, shape, region))
        else:
            total = const(0, body.kind) if is_empty(shape) else sum_over(body, indices, shape)
        if name != "mean":
            return Scalar(total)
        count: Value = Constant(1.0)
        for length in shape:
            factor: Value = Constant(float(length)) if isinstance(length, int) else Scalar(length.e)
            if logarithmic:
                factor = arithmetic.conversion(LOGNUM, factor)
            count = arithmetic.binary("*", count, factor)
        return arithmetic.binary("/", Scalar(total), count)

    found = cx.guarded(node, one, tuple(const(0, INT) for _ in rest))
    if kept:
        lengths = tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))
        return Lazy(lengths, lambda index: one(tuple(i for axis, i in enumerate(index) if axis not in axes)))
    return Lazy(rest, one) if rest else found


def _running_region(cx: Context, name: str, shape: Sequence[Length], node: ast.Call) -> Region:
    """Memory for the smallest or largest of the first k elements, or the sum of these, k = 0 … n."""
    span = cx.span(node)
    words = words_of(shape)
    if cx.recursive or isinstance(words, RunLength):
        return Region(name, words + 1 if isinstance(words, int) else 1, span=span)
    return cx.builder.module.static_region(f"{cx.function.__name__}.{name}", words + 1, span)


def reduced(cx: Context, name: str, items: Sequence[Value], node: ast.AST) -> Value:
    """The sum, mean, minimum or maximum of the items of a tuple."""
    arithmetic = cx.arithmetic
    if name in ("min", "max"):
        return items[0] if len(items) == 1 else cx.guarded(node, arithmetic.function, name, items)
    # No lognum is 0, so a sum of these begins with its first item.
    start: list[Value] = [] if any(is_lognum(v) for v in items) else [Constant(0)]
    total = reduce(lambda x, y: cx.guarded(node, arithmetic.binary, "+", x, y), items, *start)
    return total if name == "sum" else cx.guarded(node, arithmetic.binary, "/", total, Constant(len(items)))


def contained(cx: Context, x: Value, items: Value, op: ast.In | ast.NotIn, node: ast.Compare) -> Value | None:
    """`x in (1, 2)` for items of a known number; None where `items` has none."""
    if isinstance(items, Constant) and isinstance(items.value, range | set | frozenset):
        items = (
            Constant(tuple(items.value)) if not isinstance(items.value, range) or len(items.value) <= _MOST else items
        )
    known = isinstance(items, Constant) and isinstance(items.value, tuple | list | np.ndarray)
    if not known and not isinstance(items, StructValue | ArrayView | Lazy):
        return None
    arithmetic = cx.arithmetic
    found = [
        cx.guarded(node, lambda v=v: arithmetic.truth(arithmetic.binary("==", x, v)))
        for v in cx.items(items, node.comparators[0])
    ]
    truth: Value = Scalar(arithmetic.both(found, False)) if found else Constant(False)
    return truth if isinstance(op, ast.In) else cx.guarded(node, arithmetic.unary, "not", truth)


def plain_method(cx: Context, node: ast.Call) -> Value | None:
    """`z.conjugate()`, and `d.items()`, `d.keys()`, `d.values()` of a dict of constant keys, as tuples; else None."""
    f = node.func
    if not isinstance(f, ast.Attribute) or f.attr not in (*OF_DICTS, "conjugate", "conj") or node.args or node.keywords:
        return None
    x = cx.value(f.value)
    if f.attr not in OF_DICTS:
        return None if isinstance(x, Constant) else cx.guarded(node, cx.arithmetic.conjugate, x)
    keys = keys_of(x.type.cls) if isinstance(x, StructValue) else {}
    if not isinstance(x, StructValue) or not keys:
        return None
    if f.attr == "keys":
        return Constant(tuple(keys))
    why_not = f"a loop names a number of a dict, which in Python stays as it is; write `{shortened(f.value)}[k] += …`"
    values = [read_only(v, why_not) if is_number(v) else v for v in (x.fields[field] for field in keys.values())]
    pairs = zip(map(Constant, keys), values, strict=True)
    return tuple_value([tuple_value(pair) for pair in pairs] if f.attr == "items" else values)


@evaluates(ast.ListComp, ast.GeneratorExp)
def comprehension(cx: Context, node: ast.ListComp | ast.GeneratorExp) -> Value:
    """The items of a comprehension, as a tuple."""
    outer = cx.scope.names
    cx.scope.names = dict(outer)
    try:
        values = list(_items_of(cx, node.generators, node))
    finally:
        cx.scope.names = outer
    if all(isinstance(v, Constant) for v in values):
        return Constant(tuple(v.value for v in values if isinstance(v, Constant)))
    if any(isinstance(v, FunctionValue) for v in values):
        cx.fail("RG0701", f"`{shortened(node)}` makes functions", node, "Write the functions in a tuple.")
    return tuple_value(values)


def _items_of(
    cx: Context, generators: Sequence[ast.comprehension], node: ast.ListComp | ast.GeneratorExp
) -> Iterator[Value]:
    if not generators:
        yield cx.value(node.elt)
        return
    first, *inner = generators
    for item in _iterated_items(cx, first.iter):
        _bind_item(cx, first.target, item)
        if all(_holds_for_item(cx, test) for test in first.ifs):
            yield from _items_of(cx, inner, node)


def _iterated_items(cx: Context, node: ast.expr) -> list[_Item]:
    """The items that a comprehension goes through: of a tuple, a range, an array; `enumerate`, `zip` and `reversed` of these."""
    of_dict = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in OF_DICTS
    if isinstance(node, ast.Call) and not node.keywords and not of_dict:
        callee = cx.value(node.func)
        match callee.value if isinstance(callee, Constant) else None, node.args:
            case builtins.enumerate, [of]:
                return [(Constant(i), item) for i, item in enumerate(_iterated_items(cx, of))]
            case builtins.zip, [*several]:
                return list(zip(*(_iterated_items(cx, of) for of in several), strict=False))
            case builtins.reversed, [of]:
                return _iterated_items(cx, of)[::-1]
    value = cx.value(node)
    if isinstance(value, Constant) and isinstance(value.value, range | np.ndarray):
        cx.guarded(node, check_size, (len(value.value),))
        value = Constant(tuple(value.value))
    length = value.shape[0] if isinstance(value, ArrayView | Lazy) and value.shape else 0
    if not isinstance(length, int) or isinstance(value, Scalar):
        hint = "Make an array with `t = rg.zeros(n)` and fill it in a loop, or write an expression of whole arrays."
        message = f"a comprehension goes through a known number of items; `{shortened(node)}` is {describe(value)}"
        cx.fail("RG0717", message, node, hint)
    cx.guarded(node, check_size, (length,))
    return [*cx.items(value, node)]


def _bind_item(cx: Context, target: ast.expr, item: _Item) -> None:
    match target:
        case ast.Name(id=name):
            cx.scope.names[name] = _value(item)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            items = item if isinstance(item, tuple) else cx.items(item, target)
            if len(items) != len(parts):
                cx.fail("RG0703", f"{len(parts)} names for {len(items)} values", target)
            for part, inner in zip(parts, items, strict=True):
                _bind_item(cx, part, inner)
        case _:
            cx.fail("RG0701", f"`{shortened(target)}` is no name", target)


def _holds_for_item(cx: Context, test: ast.expr) -> bool:
    c = cx.tested(test)
    if not isinstance(c, Constant):
        hint = f"Write a choice for each item, `e if {shortened(test)} else 0`."
        cx.fail("RG0717", f"`{shortened(test)}` is known only when the program runs", test, hint)
    return cx.decided(c, test)


#: items of a range that are compared one by one
_MOST = 64


def _filled(template: ast.expr, given: dict[str, Held], at: ast.AST) -> ast.expr:
    """The template with its arguments, at a place of the source."""

    def made(node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Name):
            return given[node.id] if node.id in given else held(Constant(NAMES_OF_WRITTEN[node.id]), at)
        if isinstance(node, Held):
            return held(node.held, at)
        new = copy(node)
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(new, name, [made(v) for v in value])
            elif isinstance(value, ast.expr):
                setattr(new, name, made(value))
        return ast.copy_location(new, at)

    found = made(template)
    assert isinstance(found, ast.expr)
    return found


# -----------------------------------------------------------------------------
# Operators inside expressions: arithmetic, comparisons, `and`, `or`, `x if c else y`; tuples of constants.

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip


@evaluates(ast.BinOp)
def binary(cx: Context, node: ast.BinOp) -> Value:
    x, y = cx.value(node.left), cx.value(node.right)
    if isinstance(node.op, ast.MatMult):
        return _matrix_product(cx, x, y, node)
    if isinstance(node.op, ast.Mult) and (_is_sequence(x) or _is_sequence(y)):
        repeated = _repeated_items(cx, node, *((x, y, node.left) if _is_sequence(x) else (y, x, node.right)))
        if repeated is not None:
            return repeated
    alike = not isinstance(node.op, ast.Pow)
    if not alike and kind_of(y) is Kind.LOGNUM:
        shown = shortened(node.right)
        message = f"the exponent `{shown}` is a lognum"
        cx.fail("RG0703", message, node.right, f"fixed({shown}) makes a fixed of it")
    x, y = cx.together((x, y), (node.left, node.right), alike)
    return cx.guarded(node, cx.arithmetic.binary, OPERATORS[type(node.op)], x, y)


def _repeated_items(cx: Context, node: ast.BinOp, items: Value, count: Value, shown: ast.expr) -> Value | None:
    """A list or a tuple times an integer: its items again and again, as in Python. None beside any other number, which scales the items."""
    if isinstance(count, Constant) and isinstance(count.value, int | np.integer):
        each = cx.items(items, shown)
        cx.guarded(node, check_operator, "*", (0,) * len(each), int(count.value))
        found = each * int(count.value)
        if all(isinstance(v, Constant) for v in found):
            return Constant(tuple(v.value for v in found if isinstance(v, Constant)))
        return tuple_value(found)
    if isinstance(count, Scalar) and count.kind in (Kind.INT, Kind.UINT, Kind.BOOL):
        message = f"`{shortened(node)}` repeats a list as often as a number of the run says"
        number = shortened(node.right if shown is node.left else node.left)
        hint = (
            f"`{shortened(shown)} * fixed({number})` multiplies the items; `rg.zeros({number})` has a length of the run"
        )
        cx.fail("RG0703", message, node, hint)
    return None


def _matrix_product(cx: Context, x: Value, y: Value, node: ast.BinOp) -> Value:
    """Σₖ xᵢₖ yₖⱼ, of matrices and vectors."""
    factors = [cx.stored(x, node.left), cx.stored(y, node.right)]
    for v, operand in zip(factors, (node.left, node.right), strict=True):
        if not isinstance(v, ArrayView | Lazy) or not 1 <= len(v.shape) <= 2:
            message = f"`{shortened(operand)}` is {describe(v)}; `@` multiplies matrices and vectors"
            cx.fail("RG0703", message, operand, "write `*` for the product of numbers")
    left, right = factors
    assert isinstance(left, ArrayView | Lazy)
    assert isinstance(right, ArrayView | Lazy)
    if left.shape[-1] != right.shape[0]:
        message = f"`{shortened(node)}`: rows of {left.shape[-1]} numbers, columns of {right.shape[0]}"
        cx.fail("RG0712", message, node)
    length = merged((left.shape[-1], right.shape[0]))
    k = Var("k", Kind.INT, cx.span(node))
    note_range(cx.builder.ranges, k, length, cx.w)
    arithmetic = cx.arithmetic
    shape = (*left.shape[:-1], *right.shape[1:])

    def product(index: tuple[E, ...], at: E) -> Value:
        i = len(left.shape) - 1
        return arithmetic.binary("*", element(left, (*index[:i], at)), element(right, (at, *index[i:])))

    if Kind.LOGNUM in (kind_of(left), kind_of(right)):
        cx.together(factors, (node.left, node.right))
        if is_empty((length,)):
            message = f"`{shortened(node)}`: the sum of no numbers is 0, which no lognum can be"
            cx.fail("RG0703", message, node, "Give the rows an element at least.")
        terms = Lazy((*shape, length), lambda index: cx.guarded(node, product, index[:-1], index[-1]))
        return cx.value(_sum_of_last_axis(terms, node))

    def one(index: tuple[E, ...]) -> Value:
        term = product(index, read(k))
        if isinstance(term, StructValue):
            return StructValue(term.type, {name: total(v) for name, v in term.fields.items()})
        return total(term)

    def total(term: Value) -> Value:
        return Scalar(sum_over(arithmetic.expression(term), (k,), (length,)))

    if not shape:
        return cx.guarded(node, one, ())
    cx.guarded(node, one, tuple(const(0, Kind.INT) for _ in shape))
    return Lazy(shape, one)


def _sum_of_last_axis(terms: Lazy, node: ast.BinOp) -> ast.Call:
    """`rg.sum(terms, axis=−1)` in place of a product of matrices of lognums, whose sums have no 0 to begin with."""
    axis = ast.keyword("axis", ast.copy_location(ast.Constant(len(terms.shape) - 1), node))
    call = ast.Call(held(Constant(intrinsics.sum), node), [held(terms, node)], [axis])
    return ast.copy_location(call, node)


@evaluates(ast.UnaryOp)
def unary(cx: Context, node: ast.UnaryOp) -> Value:
    operand = cx.tested if isinstance(node.op, ast.Not) else cx.value
    x = operand(node.operand)
    if isinstance(node.op, ast.Invert) and isinstance(x, FunctionValue):
        return replace(x, backward=not x.backward)
    return cx.guarded(node, cx.arithmetic.unary, OPERATORS[type(node.op)], x)


@evaluates(ast.IfExp)
def choice(cx: Context, node: ast.IfExp) -> Value:
    return _chosen_side(cx, node.test, node.body, node.orelse, node)


def select(cx: Context, node: ast.Call) -> Value:
    """`rg.select(c, x, y)`: `x if c else y`."""
    c, x, y = node.args
    return _chosen_side(cx, c, x, y, node)


def _chosen_side(cx: Context, test: ast.expr, x: ast.expr, y: ast.expr, node: ast.expr) -> Value:
    """x if the test holds, else y. Of a test that is known only one side is lowered."""
    c = cx.tested(test)
    elementwise = isinstance(node, ast.Call)
    if isinstance(c, Constant) and not (elementwise and isinstance(c.value, np.ndarray | tuple | list)):
        return cx.value(x if cx.decided(c, test) else y)
    values = [c, cx.value(x), cx.value(y)]
    if elementwise and all(isinstance(v, Constant) for v in values):
        arrays = [cx.numbers(v.value, node) for v in values if isinstance(v, Constant)]
        return Constant(cx.guarded(node, np.where, *arrays))
    values = cx.together(values, (test, x, y), alike=False)
    values[1:] = cx.together(values[1:], (x, y))
    return cx.guarded(node, cx.arithmetic.function, "select", values)


@evaluates(ast.BoolOp)
def boolean(cx: Context, node: ast.BoolOp) -> Value:
    """`x and y` is y if x is true, else x; `x or y` is x if x is true, else y. So is a row of operands, from left to right."""
    conjunction = isinstance(node.op, ast.And)
    values = _until_decided(cx, node, cx.value)
    if all(map(_is_truth, values)):
        return _combined(cx, node, values, conjunction)
    *others, result = values
    for x, operand in reversed([*zip(others, node.values, strict=False)]):
        # A constant that decides stands last.
        if not isinstance(x, Constant):
            c = cx.guarded(operand, cx.arithmetic.truth, x)
            sides = (result, x) if conjunction else (x, result)
            if any(isinstance(v, ArrayView | Lazy) or np.ndim(getattr(v, "value", 0)) for v in sides):
                message = f"`{shortened(node)}` is an array or a number"
                cx.fail("RG0703", message, node, "Write an `if`, and an update in each branch.")
            result = cx.guarded(node, cx.arithmetic.function, "select", [Scalar(c), *sides])
    return result


@decides(ast.BoolOp)
def truths(cx: Context, node: ast.BoolOp) -> Value:
    """The truth of `x and y`, where nothing but the truth matters: a bool."""
    values = _until_decided(cx, node, cx.tested)
    return _combined(cx, node, values, isinstance(node.op, ast.And))


def _until_decided(cx: Context, node: ast.BoolOp, lower: Callable[[ast.expr], Value]) -> list[Value]:
    """The operands up to the first constant that decides; those behind it have no value, as in Python."""
    values: list[Value] = []
    for operand in node.values:
        values.append(lower(operand))
        c = values[-1]
        if isinstance(c, Constant) and cx.decided(c, operand) is isinstance(node.op, ast.Or):
            break
    return values


def _combined(cx: Context, node: ast.expr, values: Sequence[Value], conjunction: bool) -> Value:
    """The truths of several values together."""
    left: list[Value] = []
    for v in values:
        if isinstance(v, Constant):
            if cx.decided(v, node) is not conjunction:
                return Constant(not conjunction) if not left else _conjoin(cx, node, [*left, v], conjunction)
            continue
        left.append(v)
    return _conjoin(cx, node, left, conjunction) if left else Constant(conjunction)


def _conjoin(cx: Context, node: ast.expr, values: Sequence[Value], conjunction: bool) -> Value:
    def combine() -> Value:
        truths = [cx.arithmetic.truth(v) for v in values]
        return Scalar(cx.arithmetic.both(truths, conjunction))

    return cx.guarded(node, combine)


@evaluates(ast.Compare)
def comparison(cx: Context, node: ast.Compare) -> Value:
    # `n in {1, 2}` is `n in (1, 2)`.
    sides = [
        ast.copy_location(ast.Tuple(v.elts, ast.Load()), v) if isinstance(v, ast.Set) else v for v in node.comparators
    ]
    operands = [cx.value(v) for v in (node.left, *sides)]
    parts: list[Value] = []
    nodes = pairwise((node.left, *sides))
    for op, (x, y), places in zip(node.ops, pairwise(operands), nodes, strict=True):
        symbol = OPERATORS.get(type(op))
        if symbol in COMPARISONS:
            pair = cx.together((x, y), places)
            parts.append(cx.guarded(node, cx.arithmetic.binary, symbol, *pair))
        elif isinstance(x, Constant) and isinstance(y, Constant):
            parts.append(Constant(_identity_or_membership(cx, op, x.value, y.value, node)))
        elif isinstance(op, ast.In | ast.NotIn) and (found := contained(cx, x, y, op, node)) is not None:
            parts.append(found)
        else:
            hint = None
            if isinstance(op, ast.In | ast.NotIn):
                hint = "`in` compares with each item of a tuple, a range or an array of a known length."
            cx.fail("RG0701", f"`{shortened(node)}` compares what the language cannot", node, hint)
    return parts[0] if len(parts) == 1 else _combined(cx, node, parts, True)


def _identity_or_membership(cx: Context, op: ast.cmpop, x: Any, y: Any, node: ast.AST) -> bool:
    """`is`, `is not`, `in`, `not in` of constants."""
    if isinstance(op, ast.Is | ast.IsNot):
        return (x is y) is isinstance(op, ast.Is)
    cx.guarded(node, need_plain, x)
    cx.guarded(node, need_plain, y)
    return cx.guarded(node, lambda: bool(x in y)) is isinstance(op, ast.In)


@evaluates(ast.Tuple, ast.List)
def sequence(cx: Context, node: ast.Tuple | ast.List) -> Value:
    values = [value for value, _ in cx.listed(node.elts)]
    if all(isinstance(v, Constant) for v in values):
        return Constant(tuple(v.value for v in values if isinstance(v, Constant)))
    functions = [v for v in values if isinstance(v, FunctionValue) and not v.captured]
    if len(functions) == len(values):
        return Constant(tuple(v.function if v == FunctionValue(v.function) else v for v in functions))
    return tuple_value(values)


def _is_sequence(x: Value) -> bool:
    """Whether a value is a list or a tuple, and no array."""
    if isinstance(x, Constant):
        return isinstance(x.value, list | tuple)
    return isinstance(x, StructValue) and x.type.is_tuple


def _is_truth(x: Value) -> bool:
    """Whether a value is a bool."""
    return x.kind is Kind.BOOL if isinstance(x, Scalar) else isinstance(x, Constant) and isinstance(x.value, bool)
