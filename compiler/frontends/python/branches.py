"""Blocks of statements, and loops over the elements of arrays. A local that a block allocates is freed at its end."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from retrograd.compiler.frontends.python.context import Context, lowers
from retrograd.compiler.frontends.python.source import condition, shortened
from retrograd.compiler.ir.effects import AccessSets
from retrograd.compiler.ir.expressions import E, apply, choose, const, is_const, loads, negated, variables
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Check,
    Const,
    Delocal,
    If,
    Kind,
    Local,
    Node,
    Op,
    Test,
    Var,
    While,
)
from retrograd.compiler.language.intrinsics import repeat
from retrograd.compiler.language.values import (
    Constant,
    Operands,
    branch_on,
    branch_on_all,
    has_cheap_operands,
    joined_by_and,
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
# Running backward, the conditions exchange their parts. Cheap operands of a comparison are kept (see `language/kept_operands.py`). Another condition that needs
# temporaries is kept in a bit. The bit of a loop is one as long as passes follow, so one evaluation a pass suffices:
#
#     while (p, q): A        →   b ^= p;  while b: (A; b ^= ¬p);  b ^= p           p is kept in b
#                            →   b ^= q;  while p, b: (b ^= ¬q; A);  b ^= q        q is kept in b
#     repeat(p, until=q): A  →   b, c := 0, 1;  while c, b: (b ^= p;  b must be 1;  A;  c must be 1;  c ^= q);  b ^= 1

BOOL = Kind.BOOL


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
        hint = f"write `while ({shortened(node.test)}, …):`, the second condition being false before the loop and true after each pass"
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
        head = _toggle(cx, bit, opposite(post, cx.builder.w))
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
        tail = _toggle(cx, bit, opposite(pre, cx.builder.w))
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
