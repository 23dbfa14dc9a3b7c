"""Control flow: `if`, `while`, `assert`, `rg.repeat`, and `for` through ranges, arrays and constants."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from retrograd.compiler.frontends.builder import Borrowed
from retrograd.compiler.frontends.python.allocation import bind_name
from retrograd.compiler.frontends.python.context import Context, lowers
from retrograd.compiler.frontends.python.source import condition, shortened
from retrograd.compiler.ir.effects import AccessSets
from retrograd.compiler.ir.expressions import (
    E,
    RunLength,
    add,
    apply,
    choose,
    const,
    interval,
    is_const,
    loads,
    negated,
    sub,
    variables,
)
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.instruction_selection import length
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Check,
    Const,
    Delocal,
    For,
    If,
    Kind,
    Local,
    Node,
    Op,
    Region,
    Test,
    Var,
    While,
)
from retrograd.compiler.language.arithmetic import first_axis, number_kind
from retrograd.compiler.language.intrinsics import repeat
from retrograd.compiler.language.purity import need_iterable, need_plain
from retrograd.compiler.language.types import OF_DICTS, keys_of, operands
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    Lazy,
    Operands,
    Scalar,
    StackValue,
    StructValue,
    Value,
    branch_on,
    branch_on_all,
    describe,
    has_cheap_operands,
    is_number,
    joined_by_and,
    read_only,
    scalars,
    variable,
)
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

# -----------------------------------------------------------------------------
# `if`, `while`, `assert`: control flow with a condition before and a condition after.
#
#     if (p, q): …           p holds before the branch is taken, q after it; with one condition, the branches may not change it
#     while (p, q): …        p goes on; q is false before the first pass and true after each
#     for _ in rg.repeat(p, until=q): …    p holds before the first pass only, q after the last pass only
#     assert p               tested in both directions
#
# Running backward, the conditions exchange their parts. Cheap operands of a comparison are kept (see `language/values.py`). Another condition that needs
# temporaries is kept in a bit. The bit of a loop is one as long as passes follow, so one evaluation a pass suffices:
#
#     while (p, q): A        →   b ^= p;  while b: (A; b ^= ¬p);  b ^= p           p is kept in b
#                            →   b ^= q;  while p, b: (b ^= ¬q; A);  b ^= q        q is kept in b
#     repeat(p, until=q): A  →   b, c := 0, 1;  while c, b: (b ^= p;  b must be 1;  A;  c must be 1;  c ^= q);  b ^= 1

INT, UINT, BOOL = Kind.INT, Kind.UINT, Kind.BOOL


def _pair(cx: Context, node: ast.If | ast.While) -> tuple[ast.expr, ast.expr | None]:
    """(before, after) of `(before, after)`, or one condition and None. Their texts are kept for traps."""
    before, after = node.test, None
    if isinstance(node.test, ast.Tuple):
        if len(node.test.elts) != 2:
            hint = "write `and` or `or` between conditions"
            cx.fail("RG0701", "a pair of conditions is (before, after)", node.test, hint)
        before, after = node.test.elts
    module, span = cx.builder.module, cx.span(before)
    first = condition(before, span)
    module.conditions[span] = first, first if after is None else condition(after, cx.span(after))
    if isinstance(node, ast.If):
        module.statement_texts[cx.builder.span] = f"the condition `{shortened(node.test)}`"
    return before, after


@lowers(ast.If)
def lower_if(cx: Context, node: ast.If) -> None:
    before, after = _pair(cx, node)
    found = cx.tested(before)
    if isinstance(found, Constant):
        # Only one branch is lowered, as part of this block.
        with cx.block() as inner:
            cx.lower(node.body if cx.decided(found, before) else node.orelse)
        cx.builder.emit(inner, made_of_blocks=True)
        return
    pre = cx.condition(before)
    span = cx.span(before)
    t_pre = cx.builder.temporaries()
    test = t_pre.test(pre)
    then, orelse = _lower_branch(cx, node.body), _lower_branch(cx, node.orelse)
    if after is None:
        parts = () if orelse else joined_by_and(pre)
        changes = cx.builder.effects((*then, *orelse))
        clobbered = variables(pre) & changes.writes
        if clobbered:
            name = min(v.name for v in clobbered)
            where = where_changed(cx, [*node.body, *node.orelse], name)
            message = f"the body changes `{name}`{where}, on which the condition depends"
            hint = f"write `if ({shortened(before)}, …):`, the second condition being true exactly if the body was run"
            cx.fail("RG0707", message, before, hint)

        def checked(condition: E) -> bool:
            return loads_clobbered(condition, changes)

        if len(parts) > 1:
            block = branch_on_all(parts, then, cx.builder.temporaries(), span, checked)
        else:
            block = t_pre.wrap((If(test, then, orelse, test, span),), checked(pre))
        cx.builder.emit(block, made_of_blocks=True)
        return
    post = cx.condition(after)
    if has_cheap_operands(pre) and has_cheap_operands(post):
        t_post = cx.builder.temporaries()
        block = branch_on((t_pre, test), then, orelse, (t_post, t_post.test(post)), span)
        cx.builder.emit(block, made_of_blocks=True)
        return
    # A bit holds which branch was taken: it is set by one condition and cleared by the other.
    bit = Var("branch", BOOL, span)
    message = f"`{shortened(after)}` is {{truth}} after the `if`, and `{shortened(before)}` is {{other}} before it"
    still = Check(Test("eq", bit, ZERO), "RG0803", message, cx.span(after))
    taken = Test("ne", bit, ZERO)
    branch = If(taken, then, orelse, taken, span)
    set_bit, clear_bit = _toggle(cx, bit, pre), _toggle(cx, bit, post)
    cx.builder.emit(
        (Local(bit, False, span), still, *set_bit, branch, *clear_bit, still, Delocal(bit, False, span)),
        made_of_blocks=True,
    )


def _toggle(cx: Context, bit: Var, condition: E) -> Block:
    """bit ^= condition."""
    t = cx.builder.temporaries()
    body: list[Node] = []
    t.into(body, bit, "xor", condition)
    return t.wrap(tuple(body))


def _lower_branch(cx: Context, body: Sequence[ast.stmt], repeated: bool = False) -> Block:
    previous = cx.builder.span
    with cx.repeated() if repeated else cx.block() as inner:
        cx.lower(body)
    cx.builder.span = previous
    return tuple(inner)


@lowers(ast.While)
def lower_while(cx: Context, node: ast.While) -> None:
    refuse_else(cx, node)
    before, after = _pair(cx, node)
    if after is None:
        _refuse_repeat(cx, node.test)
        hint = f"write `while ({shortened(node.test)}, …):`, the second condition being false before the loop and true after each pass; in `@rg.functional` a `while` has one"
        message = "a `while` needs a second condition, to know when running backward where it began"
        cx.fail("RG0707", message, node.test, hint)
    span = cx.span(before)
    body = _lower_branch(cx, node.body, repeated=True)
    pre, post = cx.condition(before), cx.condition(after)
    t = cx.builder.temporaries()
    first: Block = ()
    head: Block = ()
    tail: Block = ()
    last: Block = ()
    if not has_cheap_operands(post):
        bit = Var("passed", BOOL, span)
        message = f"`{shortened(after)}` is true before the first pass of the loop, and must be false there"
        fresh = Check(Test("eq", bit, ZERO), "RG0803", message, cx.span(after))
        message = f"`{shortened(after)}` is false after a pass of the loop, and must be true there"
        passed = Check(Test("eq", bit, ZERO), "RG0803", message, cx.span(after))
        head = _toggle(cx, bit, opposite(post, cx.w))
        change = _toggle(cx, bit, post)
        first = (Local(bit, False, span), *change, fresh)
        last = (*change, passed, Delocal(bit, False, span))
        post_test = Test("ne", bit, ZERO)
    else:
        post_test = t.test(post)
    if not has_cheap_operands(pre):
        bit = Var("again", BOOL, span)
        message = f"`{shortened(before)}` is false before a pass of the loop, which would not be made"
        made = Check(Test("eq", bit, ZERO), "RG0803", message, span)
        message = f"`{shortened(before)}` is true after the last pass of the loop, where the loop would go on"
        over = Check(Test("eq", bit, ZERO), "RG0803", message, span)
        tail = _toggle(cx, bit, opposite(pre, cx.w))
        change = _toggle(cx, bit, pre)
        first = (*first, Local(bit, False, span), made, *change)
        last = (over, *change, Delocal(bit, False, span), *last)
        pre_test = Test("ne", bit, ZERO)
    else:
        pre_test = t.test(pre)
    kept = Operands.of(t)
    loop = While(pre_test, (*kept.clear, *head, *body, *tail, *kept.compute), post_test, span)
    cx.builder.emit((*first, *kept.born, *kept.compute, loop, *kept.clear, *kept.freed, *last), made_of_blocks=True)


def _refuse_repeat(cx: Context, test: ast.expr) -> None:
    """Raise RG0701 for `while rg.repeat(…)`."""
    called = cx.value(test.func) if isinstance(test, ast.Call) else None
    if isinstance(called, Constant) and called.value is repeat:
        hint = "Write `for _ in rg.repeat(n == 0, until=x > limit):`."
        cx.fail("RG0701", "rg.repeat is a `for` loop, and no condition of a `while`", test, hint)


def lower_repeat(cx: Context, node: ast.For, call: ast.Call) -> None:
    """Lower `for _ in rg.repeat(start, until=done): body`."""
    refuse_else(cx, node)
    start, until = _ends(cx, node, call)
    body = _lower_branch(cx, node.body, repeated=True)
    begun, done = cx.condition(start), cx.condition(until)
    span, first = cx.span(until), cx.span(start)
    passed, again = Var("passed", BOOL, span), Var("again", BOOL, span)
    texts = (
        f"`{shortened(start)}` is {{truth}}, and must be true before the first pass and false before each other pass"
    )
    entered = Check(Test("ne", passed, ZERO), "RG0803", texts, first)
    texts = f"`{shortened(until)}` must be true after the last pass, and false after each pass before it"
    left = Check(Test("ne", again, ZERO), "RG0803", texts, span)
    inner = (*_toggle(cx, passed, begun), entered, *body, left, *_toggle(cx, again, done))
    set_again = Op(TABLE["mov.xor"], again, Const(1), None, 0, span)
    clear_passed = Op(TABLE["mov.xor"], passed, Const(1), None, 0, span)
    cx.builder.emit(
        (
            *(Local(passed, False, span), Local(again, False, span), set_again),
            While(Test("ne", again, ZERO), inner, Test("ne", passed, ZERO), span),
            *(clear_passed, Delocal(again, False, span), Delocal(passed, False, span)),
        ),
        made_of_blocks=True,
    )


def _ends(cx: Context, node: ast.For, call: ast.Call) -> tuple[ast.expr, ast.expr]:
    """The conditions (start, until) of a loop `rg.repeat`."""
    hint = (
        "Write `for _ in rg.repeat(n == 0, until=x > limit):`; the first condition is true before the first pass only."
    )
    given = dict(zip(("start", "until"), call.args, strict=False))
    for keyword in call.keywords:
        name = keyword.arg or "**"
        if name not in ("start", "until") or name in given:
            cx.fail("RG0715", f"rg.repeat takes `start` and `until`, and not `{name}` here", keyword.value, hint)
        given[name] = keyword.value
    if len(call.args) > 2 or len(given) < 2:
        count = len(call.args) + len(call.keywords)
        cx.fail("RG0715", f"rg.repeat takes two conditions, and is given {count}", call, hint)
    if not isinstance(node.target, ast.Name) or not node.target.id.startswith("_"):
        message = f"the passes of rg.repeat have no number, so `{shortened(node.target)}` has no value"
        cx.fail("RG0703", message, node.target, "Write `for _ in rg.repeat(…):`, and count in a variable of your own.")
    return given["start"], given["until"]


@lowers(ast.Assert)
def lower_assert(cx: Context, node: ast.Assert) -> None:
    test = node.test
    found = cx.tested(test)
    if isinstance(found, Constant):
        if not cx.decided(found, test):
            cx.fail("RG0804", f"`{shortened(test)}` is false", test)
        return
    e = cx.condition(test)
    t = cx.builder.temporaries()
    claim = t.test(e)
    plain = e.args[0] if e.op == "not" else e
    compared = plain.op == "apply" and plain.param in ("slt", "sltu", "seq")
    span = cx.span(test)
    values = condition(test, span).values(claim.a, claim.b) if compared else ""
    check = Check(claim, "RG0804", f"`{shortened(test)}` is false{values}", span)
    cx.builder.emit(t.wrap((check,)))


def opposite(e: E, w: Format) -> E:
    """¬e; the opposite of a comparison with a constant is a comparison with the next constant."""
    if e.op == "choose":
        return choose(e.args[0], opposite(e.args[1], w), opposite(e.args[2], w))
    if e.op == "apply" and e.param == "slt":
        x, y = e.args
        if is_const(x) and w.signed(x.param) < w.sign - 1:
            return apply("slt", BOOL, y, _next(x, 1, w))
        if is_const(y) and w.signed(y.param) > -w.sign:
            return apply("slt", BOOL, _next(y, -1, w), x)
    return negated(e)


def _next(e: E, by: int, w: Format) -> E:
    """The constant whose word is greater by `by`."""
    word = w.signed(e.param) + by
    return const(word if e.kind is Kind.INT else word & w.mask, e.kind)


def refuse_else(cx: Context, node: ast.For | ast.While) -> None:
    if node.orelse:
        hint = "Put these statements after the loop: it has no other way out."
        cx.fail("RG0701", "`else` of a loop is not in the language", node.orelse[0], hint)


def loads_clobbered(e: E, changes: AccessSets) -> bool:
    """Whether an expression loads from an array that statements change."""
    regions = {a.region for a, _ in loads(e)}
    return bool(regions) and (None in changes.stores or not regions.isdisjoint(changes.stores))


def where_changed(cx: Context, body: Sequence[ast.stmt], name: str) -> str:
    """` in line 7`: the first statement of a body that may change a variable; empty if none is found."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.AugAssign | ast.Call | ast.Assign):
                changed = node.target if isinstance(node, ast.AugAssign) else node
                if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(changed)):
                    return f" in line {cx.span(node).line}"
    return ""


# -----------------------------------------------------------------------------
# Iterables of `for`: ranges, arrays, constants, and enumerate, zip and reversed of these, within each other.
#
#     for i in reversed(range(a, b, s))          the loop of range(a, b, s), its passes in the other order
#     for i, (x, y) in enumerate(zip(xs, ys))    for i in range(n): x, y stand for xs[i], ys[i]
#     for x, y in zip(xs, reversed(ys))          for i in range(n): x, y stand for xs[i], ys[n − 1 − i]
#
# An item is a view of an element, the value of an expression of the index, or a constant.

#: items of a loop whose body is lowered once for each of them
MOST_COPIES = 10_000

Item = Value | tuple["Item", ...]

#: why the index of a loop, or a value computed from it, cannot be changed
INDEX = "it is the index of a loop"
#: why a number of an array cannot be changed by the name that a loop gives to it
NUMBER = "a loop names a number of an array, which in Python stays as it is; change it by its index: `for i in range(len(a)): a[i] += …`"


@dataclass(frozen=True)
class Iterable:
    """`count` items; `item(i)` is the one at index i, counted from the end where `backward`.

    `bounds`: (start, stop, step) of a range, whose items are its indices. `constants`: the items, where all are known.
    `copied`: an item is known for a constant index only, so the body is lowered once for each. `reads`: operands of the items.
    `most`: no run has more items, None where the count is a constant. `length`: that of an axis, where the program's run decides it.
    """

    count: E
    item: Callable[[E], Item]
    backward: bool = False
    bounds: tuple[E, E, int] | None = None
    constants: Sequence[Any] | None = None
    copied: bool = False
    reads: tuple[E, ...] = ()
    most: int | None = None
    length: RunLength | None = None

    def at(self, index: E, w: Format) -> Item:
        """The item at an index, counted from the beginning."""
        return self.item(sub(sub(self.count, const(1, INT), w), index, w) if self.backward else index)


def call_of_repeat(cx: Context, node: ast.expr) -> ast.Call | None:
    """The call, where an expression is a call of `rg.repeat`."""
    return node if isinstance(node, ast.Call) and _called_builtin(cx, node) is repeat else None


def iterable(cx: Context, node: ast.expr) -> Iterable | Constant:
    """The iterable of a `for`: a Constant, unless it is a range, or anything else."""
    if isinstance(node, ast.Call):
        callee = _called_builtin(cx, node)
        if callee is range:
            return _lower_range(cx, node)
        if callee is enumerate or callee is zip or callee is reversed:
            return _combined_iterable(cx, callee, node)
    found = cx.value(node)
    if isinstance(found, Constant):
        cx.guarded(node, need_iterable, found.value)
        return found
    if isinstance(found, StructValue) and found.type.is_tuple:
        items = list(found.fields.values())
        return Iterable(const(len(items), INT), _picked(items), copied=True)
    if isinstance(found, StructValue) and keys_of(found.type.cls):
        return Constant(tuple(keys_of(found.type.cls)))
    if not isinstance(found, ArrayView | Lazy) or not found.shape:
        message = f"`{shortened(node)}` is {describe(found)}, which cannot be iterated over"
        hint: str | None = None
        if isinstance(found, StackValue):
            hint = f"Go through its indices, `for i in range(len({shortened(node)})):`, or pop each word: `while ({shortened(node)}, …):`."
        elif isinstance(found, StructValue):
            hint = f"its fields are {', '.join(found.fields)}"
        elif isinstance(found, Scalar) and found.e.kind is INT:
            hint = f"write `range({shortened(node)})`"
        cx.fail("RG0703", message, node, hint)
    return _elements_of(cx, found)


def _called_builtin(cx: Context, node: ast.expr) -> Any:
    """The Python function that an expression calls, or None."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in OF_DICTS:
        return None
    f = cx.value(node.func) if isinstance(node, ast.Call) else None
    return f.value if isinstance(f, Constant) else None


def _elements_of(cx: Context, array: ArrayView | Lazy) -> Iterable:
    length = array.shape[0]

    def item(i: E) -> Value:
        found = first_axis(array, i)
        return read_only(found, NUMBER) if is_number(found) else found

    if isinstance(length, int):
        return Iterable(const(length, INT), item)
    t = cx.builder.temporaries()
    t.require(length.checks)
    cx.builder.emit(t.wrap(()))
    return Iterable(length.e, item, reads=operands((length,)), most=length.most, length=length)


def _lower_range(cx: Context, call: ast.Call) -> Iterable:
    if not 1 <= len(call.args) <= 3 or call.keywords:
        cx.fail("RG0715", "range takes one to three integers", call)
    w = cx.w
    values = [cx.value(a) for a in call.args]
    for a, v in zip(call.args, values, strict=True):
        if isinstance(v, Constant) and number_kind(v.value) is INT and not -w.sign <= v.value < w.sign:
            message = f"the index of a loop cannot reach {v.value} in words of {w.width} bits"
            cx.fail("RG0714", message, a)
        kind = v.kind if isinstance(v, Scalar) else number_kind(getattr(v, "value", None))
        if kind is not None and kind.is_fixed:
            hint = "Count with integers, and compute the number from the index: `for k in range(n):`, `t = k * 0.25`."
            cx.fail("RG0703", f"`{shortened(a)}` is {describe(v)}, and a range goes through integers", a, hint)
    if any(isinstance(v, Scalar) and v.kind is UINT for v in values):
        return _unsigned_range(cx, call, values)
    ends = [cx.scalar(a, INT) for a in call.args]
    if len(ends) == 3 and ends[2].op != "const":
        return _stepped_range(cx, call, *ends)
    step = cx.static_int(call.args[2], "the step of a range") if len(ends) == 3 else 1
    if step == 0:
        cx.fail("RG0714", "the step of a range is zero", call)
    if not -w.sign < step < w.sign:
        cx.fail("RG0714", f"the step of a range cannot be {step} in words of {w.width} bits", call)
    start = ends[0] if len(ends) > 1 else const(0, INT)
    stop = ends[1] if len(ends) > 1 else ends[0]
    constants = None
    if start.op == "const" and stop.op == "const":
        constants = range(w.signed(start.param), w.signed(stop.param), step)

    item, most = progression(cx, start, step), None
    count = passes(cx, start, stop, step) if constants is None else const(length(constants), INT)
    if constants is None:
        most = most_passes(cx, start, stop, step)
    return Iterable(count, item, bounds=(start, stop, step), constants=constants, reads=(start, stop), most=most)


def _stepped_range(cx: Context, call: ast.Call, start: E, stop: E, step: E) -> Iterable:
    """A range whose step is known only when the program runs. A step of zero traps as a division by zero.

    ⌊(|stop − start| − 1) / |step|⌋ + 1 passes where the step leads from start towards stop, else none. Distance and
    step are divided as unsigned words, which hold the sizes of all distances.
    """
    arithmetic, w = cx.arithmetic, cx.w
    up = apply("slt", BOOL, const(0, INT), step)

    def unsigned(e: E) -> Scalar:
        found = arithmetic.conversion(UINT, Scalar(apply("mov", INT, e)))
        assert isinstance(found, Scalar)
        return found

    def counted() -> E:
        distance = unsigned(choose(up, sub(stop, start, w), sub(start, stop, w)))
        size = unsigned(choose(up, step, sub(const(0, INT), step, w)))
        last = arithmetic.binary("//", arithmetic.binary("-", distance, Constant(1)), size)
        more = arithmetic.expression(arithmetic.binary("+", last, Constant(1)))
        ahead = choose(up, apply("slt", BOOL, start, stop), apply("slt", BOOL, stop, start))
        none = apply("seq", BOOL, step, const(0, INT))
        return choose(apply("or", BOOL, ahead, none), more, const(0, UINT))

    def item(i: E) -> Item:
        return _read_only(add(start, apply("mul", INT, i, step), w))

    return Iterable(apply("mov", INT, cx.guarded(call, counted)), item, reads=(start, stop, step), most=w.mask)


def _unsigned_range(cx: Context, call: ast.Call, values: Sequence[Value]) -> Iterable:
    """A range with an end that is a uint: its indices are uints, and its passes are counted by an unsigned word.

    start < stop:  ⌊(stop − start − 1) / step⌋ + 1 passes, else none.
    """
    for a, v in zip(call.args[:2], values, strict=False):
        if isinstance(v, Constant) and number_kind(v.value) is INT and v.value < 0:
            hint = "To go from u down to 0, write `reversed(range(u + 1))`."
            cx.fail("RG0714", f"{v.value} is no end of a range of uints", a, hint)
    arithmetic = cx.arithmetic
    step = cx.static_int(call.args[2], "the step of a range") if len(values) == 3 else 1
    if not 0 < step <= cx.w.mask:
        hint = "A range of uints goes upward; `reversed(range(…))` goes through it from its end."
        cx.fail("RG0714", f"the step of a range of uints cannot be {step}", call, hint)
    ends = [cx.number(v, a, UINT) for v, a in zip(values[:2], call.args, strict=False)]
    start = ends[0] if len(ends) > 1 else const(0, UINT)
    stop = ends[-1]

    def counted() -> E:
        last = arithmetic.binary("-", arithmetic.binary("-", Scalar(stop), Scalar(start)), Constant(1))
        passes = arithmetic.binary("+", arithmetic.binary("//", last, Constant(step)), Constant(1))
        return choose(apply("sltu", BOOL, start, stop), arithmetic.expression(passes), const(0, UINT))

    def item(i: E) -> Item:
        moved = arithmetic.binary("*", arithmetic.conversion(UINT, Scalar(i)), Constant(step))
        return _read_only(arithmetic.modulo(arithmetic.binary("+", Scalar(start), moved)))

    count = cx.guarded(call, counted)
    return Iterable(apply("mov", INT, count), item, reads=(start, stop), most=cx.w.mask)


def progression(cx: Context, start: E, step: int) -> Callable[[E], Item]:
    """i ↦ start + i · step."""
    w = cx.w

    def item(i: E) -> Item:
        moved = i if step == 1 else apply("mul", INT, i, const(w.signed(step), INT))
        if i.op == "const":
            moved = const(w.signed(i.param * step), INT)
        return _read_only(add(start, moved, w))

    return item


def most_passes(cx: Context, start: E, stop: E, step: int) -> int:
    """A bound of the number of passes of a range, from the intervals of its ends."""
    sign = cx.w.sign
    ranges = cx.builder.ranges
    begin, end = (interval(e, ranges) or (-sign, sign - 1) for e in (start, stop))
    distance = end[1] - begin[0] if step > 0 else begin[1] - end[0]
    return max(0, -(-distance // abs(step)))


def wraps_to_start(cx: Context, start: E, stop: E, step: int) -> bool:
    """Whether the index may be `start` again after the last pass: passes · |step| = 2^W, so |step| is a power of two."""
    size = abs(step)
    return size > 1 and size & size - 1 == 0 and most_passes(cx, start, stop, step) * size > cx.w.mask


def passes(cx: Context, start: E, stop: E, step: int) -> E:
    """max(0, ⌈(stop − start) / step⌉): the number of passes of a range, as an unsigned word.

    Trap to avoid: the distance may be longer than a signed word. It is halved before it is divided:
    n = distance − 1 = 2 s·a + r with a = (n >> 1) // s, so r < 2 s, and ⌊n/s⌋ = 2 a + [r ≥ s].
    """
    w, size = cx.w, abs(step)
    distance = sub(stop, start, w) if step > 0 else sub(start, stop, w)
    one, s = const(1, INT), const(size, INT)
    ends = interval(start, cx.builder.ranges), interval(stop, cx.builder.ranges)
    if ends[0] is not None and ends[1] is not None:
        least, most = sorted((ends[1][0] - ends[0][1], ends[1][1] - ends[0][0]), key=lambda x: x * step)
        if max(abs(least), abs(most)) < w.sign - size:
            rounded = distance
            if size > 1:
                rounded = apply("div", INT, add(distance, const(size - 1, INT), w), s)
            return rounded if least * step >= 0 else apply("max", INT, rounded, const(0, INT))
    count = distance
    if size > 1:
        n = sub(distance, one, w)
        half = apply("div", INT, apply("shr", INT, n, one), s)
        rest = sub(n, apply("mul", INT, half, const(w.signed(2 * size), INT)), w)
        below = apply("mov", INT, apply("sltu", BOOL, rest, s))
        count = sub(add(add(half, half, w), const(2, INT), w), below, w)
    return choose(apply("slt", BOOL, *((start, stop) if step > 0 else (stop, start))), count, const(0, INT))


def _combined_iterable(cx: Context, callee: Any, call: ast.Call) -> Iterable | Constant:
    """enumerate(xs, start), zip(xs, ys, …), reversed(xs)."""
    name = callee.__name__
    allowed = {"enumerate": "start", "zip": "strict"}.get(name)
    if any(k.arg != allowed for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        cx.fail("RG0715", f"`{shortened(call)}`: {name} takes no such argument here", call)
    keywords: dict[str, Any] = {str(k.arg): cx.static(k.value, f"`{k.arg}`") for k in call.keywords}
    args = list(call.args)
    if callee is enumerate and len(args) == 2:
        keywords["start"] = cx.static(args[1], "where enumerate starts")
        cx.guarded(args.pop(), need_plain, keywords["start"])
    for k in call.keywords:
        cx.guarded(k.value, need_plain, keywords[str(k.arg)])
    if not args or (callee is not zip and len(args) != 1):
        cx.fail("RG0715", f"{name} goes through {'one thing' if args else 'something'}", call)
    if callee is reversed and _called_builtin(cx, args[0]) in (enumerate, zip, reversed):
        hint = "Reverse what it is made of: `zip(reversed(xs), reversed(ys))`; or count down with `range`."
        cx.fail("RG0703", f"Python reverses sequences, and `{shortened(args[0])}` is none", args[0], hint)
    inner = [iterable(cx, a) for a in args]
    if callee is reversed and isinstance(inner[0], Iterable) and inner[0].bounds is not None:
        return replace(inner[0], backward=True)
    known = [x.value if isinstance(x, Constant) else x.constants for x in inner]
    if all(x is not None for x in known):
        found = cx.guarded(call, lambda: list(islice(callee(*known, **keywords), MOST_COPIES + 1)))
        if len(found) <= MOST_COPIES or any(isinstance(x, Constant) for x in inner):
            return Constant(found)
    parts = _parts_of(cx, inner, args)
    if callee is reversed:
        return replace(parts[0], backward=True)
    if callee is enumerate:
        return _enumerated(cx, parts[0], keywords.get("start", 0), call)
    return _zipped(cx, parts, call)


def _enumerated(cx: Context, given: Iterable, start: Any, call: ast.Call) -> Iterable:
    w = cx.w
    if number_kind(start) is not INT or not -w.sign <= start < w.sign:
        cx.fail("RG0714", f"enumerate cannot start from {start!r}", call)
    first = const(int(start), INT)

    def item(i: E) -> Item:
        return _read_only(add(first, i, w)), given.at(i, w)

    return replace(given, item=item, backward=False, bounds=None, constants=None)


def _parts_of(cx: Context, found: Sequence[Iterable | Constant], args: Sequence[ast.expr]) -> list[Iterable]:
    """Iterables for constants: an array of constants in memory, or one copy of the body for each item."""
    out: list[Iterable] = []
    for x, a in zip(found, args, strict=True):
        if isinstance(x, Iterable):
            out.append(x)
        elif isinstance(x.value, np.ndarray) and x.value.ndim:
            out.append(_elements_of(cx, cx.constant_array(x.value, a)))
        else:
            try:
                items = list(x.value)
            except TypeError:
                cx.fail("RG0703", f"{describe(x)} cannot be iterated over", a)
            wrapped = [cx.wrap(item) for item in items]
            out.append(Iterable(const(len(items), INT), _picked(wrapped), copied=True))
    return out


def _zipped(cx: Context, parts: Sequence[Iterable], call: ast.Call) -> Iterable:
    counts = list({p.length or p.count: p.count for p in parts}.values())
    if len(counts) > 1:
        if all(c.op == "const" for c in counts):
            lengths = sorted(c.param for c in counts)
            cx.fail("RG0712", f"arrays of the lengths {lengths} are gone through together", call)
        hint = "Make the range as long as the array, or index the array in a loop over the range."
        cx.fail("RG0717", f"`{shortened(call)}`: whether the lengths are equal is not known", call, hint)
    backward = all(p.backward for p in parts)
    w = cx.w

    def item(i: E) -> Item:
        return tuple(p.item(i) if backward else p.at(i, w) for p in parts)

    reads = tuple(e for p in parts for e in p.reads)
    most = min((p.most for p in parts if p.most is not None), default=None)
    return Iterable(counts[0], item, backward, copied=any(p.copied for p in parts), reads=reads, most=most)


def _read_only(e: E) -> Scalar:
    return variable(e.param, INDEX) if e.op == "read" else Scalar(e, None, INDEX)


def _picked(items: Sequence[Value]) -> Callable[[E], Item]:
    return lambda i: items[i.param]


# -----------------------------------------------------------------------------
# `for`: a reversible loop with an index, or a copy of the body for each of some constants.
#
# The bounds of a loop are computed again when it runs backward, so the body may not change their operands.


@lowers(ast.For)
def lower_for(cx: Context, node: ast.For) -> None:
    repeated = call_of_repeat(cx, node.iter)
    if repeated is not None:
        lower_repeat(cx, node, repeated)
        return
    refuse_else(cx, node)
    cx.builder.module.statement_texts[cx.builder.span] = f"the bounds `{shortened(node.iter)}`"
    found = iterable(cx, node.iter)
    if isinstance(found, Constant):
        _over_constants(cx, node, found)
        return
    if found.copied:
        _limit_copies(cx, found.count.param, node)
        _copies(cx, node, [found.at(const(i, INT), cx.w) for i in range(found.count.param)])
        return
    target = node.target
    if found.bounds is not None and not isinstance(target, ast.Name):
        cx.fail("RG0701", f"`{shortened(target)}` is no name for an integer", target)
    _lower_loop(cx, node, found)


def _over_constants(cx: Context, node: ast.For, found: Constant) -> None:
    """Lower a copy of the body for each of some constants."""
    try:
        items = list(islice(found.value, MOST_COPIES + 1))
    except TypeError:
        cx.fail("RG0703", f"{describe(found)} cannot be iterated over", node.iter)
    _limit_copies(cx, len(items), node)
    _copies(cx, node, [cx.wrap(item) for item in items])


def _limit_copies(cx: Context, count: int, node: ast.For) -> None:
    """Refuse a body that would be compiled too often."""
    if count > MOST_COPIES:
        hint = "Go through a range with `range(…)`, or make an array of the values: an argument, or a NumPy array at an index."
        message = f"the body of this loop would be compiled more than {MOST_COPIES} times, for each constant once"
        cx.fail("RG0720", message, node.iter, hint)


def _copies(cx: Context, node: ast.For, items: Sequence[Item]) -> None:
    # All items are those of the beginning.
    versions = Counter(cx.builder.versions)
    for item in items:
        with cx.block() as inner:
            _bind_loop_item(cx, node.target, item, node, versions)
            cx.lower(node.body)
        cx.builder.emit(inner, made_of_blocks=True)


def _lower_loop(cx: Context, node: ast.For, through: Iterable) -> None:
    name = next(n for n in ast.walk(node.target) if isinstance(n, ast.Name))
    # Through an array, the name of the source means the element, and not the index.
    var = Var("%index" if through.bounds is None else name.id, INT, cx.span(node.target))
    w, t = cx.w, cx.builder.temporaries()
    if through.bounds is not None and wraps_to_start(cx, *through.bounds):
        through = _counted(cx, through, *through.bounds, t)
    start, stop, step = through.bounds or (const(0, INT), through.count, 1)
    below = 0
    if through.bounds is None and stop.op == "const" and stop.param & w.mask >= w.sign:
        # The count is no signed word, so the index of the loop begins below 0.
        count = stop.param & w.mask
        below = count - count // 2
        start, stop = const(-below, INT), const(count // 2, INT)
    cx.builder.settled.add(var)
    if through.bounds is None and through.most is not None and through.most > w.sign:
        some = False
    else:
        reached = _bounded(cx, var, start, stop, step)
        if reached is None:
            return
        last, some = reached
        # The count of other iterables was computed from their own bounds.
        stop = stop if through.bounds is None and stop.op != "const" else last
    a, b = t.operand(start), t.operand(stop)
    with cx.repeated() as inner:
        index = variable(var, INDEX)
        item = (
            index
            if through.bounds is not None
            else through.item(add(index.e, const(below, INT), w) if below else index.e)
        )
        _bind_loop_item(cx, node.target, item, node, cx.builder.versions)
        cx.lower(node.body)
    changes = cx.builder.effects(tuple(inner))
    read = variables(start).union(variables(stop), *map(variables, through.reads))
    clobbered = read & changes.writes
    if clobbered:
        changed = min(v.name for v in clobbered)
        where = where_changed(cx, node.body, changed)
        message = f"the body changes `{changed}`{where}, on which the loop's bounds depend"
        cx.fail("RG0708", message, node.iter)
    if through.bounds is None and any(loads_clobbered(e, changes) for e in through.reads):
        cx.fail("RG0708", "the body changes an array on which the loop's bounds depend", node.iter)
    checked = loads_clobbered(start, changes) or loads_clobbered(stop, changes)
    loop = For(var, a, b, step, tuple(inner), through.backward, some, cx.span(node))
    cx.builder.emit(t.wrap((loop,), checked), made_of_blocks=True)


def _counted(cx: Context, through: Iterable, start: E, stop: E, step: int, t: Temporaries) -> Iterable:
    """A range as a loop over the numbers of its passes: `for k in range(passes)` with the index start + k · step.

    After 2^W / |step| passes the index has wrapped to its start. A loop over the index, which ends where the index is `stop`, would
    make no pass at all.
    """
    first = t.operand(start)
    origin = variable(first, INDEX).e if isinstance(first, Var) else const(cx.w.signed(first.word), INT)
    return replace(through, bounds=None, item=progression(cx, origin, step), reads=())


def _bounded(cx: Context, var: Var, start: E, stop: E, step: int) -> tuple[E, bool] | None:
    """Record the range of an index: (its value after the last pass, whether there is a pass for certain).

    None where there is certainly no pass.
    """
    w, ranges = cx.w, cx.builder.ranges
    if not loads(start) and not loads(stop):
        one = const(1, INT)
        ranges.between[var] = (start, sub(stop, one, w)) if step > 0 else (add(stop, one, w), start)
    if start.op == "const" and stop.op == "const":
        first = w.signed(start.param)
        passes = range(first, w.signed(stop.param), step)
        if not passes:
            return None
        ranges[var] = (min(first, passes[-1]), max(first, passes[-1]))
        return const(w.signed(passes[-1] + step), INT), True
    begin, end = interval(start, ranges), interval(stop, ranges)
    some = ordered = False
    if begin is not None and end is not None:
        if end[1] <= begin[0] if step > 0 else end[0] >= begin[1]:
            return None
        if step > 0:
            ranges[var] = (begin[0], max(begin[0], end[1] - 1))
            some, ordered = begin[1] < end[0], begin[1] <= end[0]
        else:
            ranges[var] = (min(begin[1], end[0] + 1), begin[1])
            some, ordered = begin[0] > end[1], begin[0] >= end[1]
    elif begin is not None and step > 0:
        ranges[var] = (begin[0], w.sign - 1)
    return _reached(cx, start, stop, step, ordered), some


def _reached(cx: Context, start: E, stop: E, step: int, ordered: bool) -> E:
    """The value that the index has after the last pass: start + step · ⌈max(0, stop − start) / step⌉.

    `ordered`: stop certainly does not lie before start.
    """
    w = cx.w
    if step in (1, -1):
        return stop if ordered else apply("max" if step > 0 else "min", INT, start, stop)
    travelled = apply("mul", INT, passes(cx, start, stop, step), const(w.signed(step), INT))
    return add(start, travelled, w)


def _unpacked(item: Item) -> Item:
    """The values in a tuple, or in a row of an array; any other item is itself."""
    if isinstance(item, StructValue) and item.type.is_tuple:
        return tuple(item.fields.values())
    if isinstance(item, ArrayView | Lazy) and isinstance(item.shape[0], int):
        rows = (first_axis(item, const(k, INT)) for k in range(item.shape[0]))
        return tuple(read_only(v, NUMBER) if is_number(v) else v for v in rows)
    return item


def _bind_loop_item(cx: Context, target: ast.expr, item: Item, node: ast.For, versions: Counter[Var | Region]) -> None:
    """Name the item of one pass, as it is in these versions."""
    if isinstance(item, Constant):
        bind_name(cx, target, item, node)
        return
    targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    if isinstance(target, ast.Tuple | ast.List):
        item = _unpacked(item)
    if isinstance(item, tuple):
        if len(targets) != len(item):
            message = f"`{shortened(target)}` names {len(targets)} value{'s' * (len(targets) != 1)} of {len(item)}"
            cx.fail("RG0703", message, target)
        for x, v in zip(targets, item, strict=True):
            _bind_loop_item(cx, x, v, node, versions)
        return
    if not isinstance(target, ast.Name):
        if isinstance(target, ast.Tuple | ast.List):
            hint = f"write `for {shortened(target)[1:-1]} in enumerate({shortened(node.iter)}):` for the index and the value"
            message = f"`{shortened(target)}` names {len(targets)} values of 1"
            cx.fail("RG0703", message, target, hint if len(targets) == 2 else None)
        cx.fail("RG0701", f"`{shortened(target)}` is no name for what a loop goes through", target)
    if target.id in cx.scope.names:
        cx.fail("RG0706", f"`{target.id}` holds a value already", target)
    cx.scope.names[target.id] = item
    parts = tuple(scalars(item)) if is_number(item) else ()
    if any(part.place is not None for part in parts) and target.id not in cx.changed:
        taken = {p: versions[p] for p in cx.builder.snapshot(*(part.e for part in parts))}
        cx.scope.borrowed[target.id] = Borrowed(item, parts, taken, cx.scope.loops)
