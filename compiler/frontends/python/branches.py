"""Blocks of statements, and loops over the elements of arrays. A local that a block allocates is freed at its end."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from retrograd.compiler.frontends.builder import IRBuilder, Scope
from retrograd.compiler.frontends.owned_locals import OwnedLocal, OwnedLocals, Update
from retrograd.compiler.frontends.python.expressions import ExpressionLowering, require_unchanged
from retrograd.compiler.frontends.python.source import Errors, condition, shortened
from retrograd.compiler.ir.effects import AccessSets
from retrograd.compiler.ir.expressions import E, Length, apply, choose, const, is_const, loads, negated, read, variables
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
    Region,
    Test,
    Var,
    While,
)
from retrograd.compiler.language.arithmetic import element
from retrograd.compiler.language.intrinsics import repeat
from retrograd.compiler.language.types import is_empty, is_known, note_range
from retrograd.compiler.language.values import (
    Constant,
    Lazy,
    Operands,
    Scalar,
    Value,
    branch_on,
    branch_on_all,
    has_cheap_operands,
    joined_by_and,
)
from retrograd.isa.diagnostics import Span
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format


@dataclass(eq=False)
class OpenRoutine:
    """A `with rg.routine()` that is computed and not yet uncomputed, and the state before it."""

    name: str
    compute: Block
    #: the locals that it allocated
    own: list[OwnedLocal]
    span: Span
    outer: list[Node]
    names: dict[str, Value]
    owned: list[OwnedLocal]
    versions: Counter[Var | Region]
    histories: dict[int, list[Update] | None]


@dataclass(eq=False)
class Blocks:
    """Opens and closes the blocks of one function."""

    errors: Errors
    builder: IRBuilder
    scope: Scope
    locals: OwnedLocals
    #: the statements that follow the current one in its block
    following: Sequence[ast.stmt] = ()
    #: of the current block
    routines: list[OpenRoutine] = field(default_factory=list)
    #: routines that were uncomputed and may be computed again: name → (compute block, its locals)
    finished: dict[str, tuple[Block, list[OwnedLocal]]] = field(default_factory=dict)

    @contextmanager
    def block(self) -> Iterator[list[Node]]:
        """A block with a scope of its own. Yields the list that receives its statements."""
        builder, scope, ledger = self.builder, self.scope, self.locals
        names, freed, owned = scope.names, scope.freed, ledger.owned
        routines, finished = self.routines, self.finished
        scope.names, scope.freed, ledger.owned = dict(names), dict(freed), list(owned)
        self.routines, self.finished = [], dict(finished)
        builder.depth += 1
        with builder.collect() as inner:
            yield inner
            if self.routines:
                r = self.routines[-1]
                hint = f"Write `~{r.name}` at the end of the block, after the last use of what the routine computed."
                self.errors.fail("RG0711", f"the routine `{r.name}` is not uncomputed in its block", r.span, hint)
            while len(ledger.owned) > len(owned):
                ledger.release(ledger.owned[-1])
        lost = next((m for m in owned if m not in ledger.owned), None)
        if lost is not None:
            message = f"`{lost.name}` is freed inside a branch or loop, but was made outside"
            hint = f"Free `{lost.name}` after the block, or make it inside."
            self.errors.fail("RG0710", message, lost.freed or lost.span, hint)
        builder.depth -= 1
        scope.names, scope.freed, ledger.owned = names, freed, owned
        self.routines, self.finished = routines, finished

    @contextmanager
    def repeated(self) -> Iterator[list[Node]]:
        """The body of a loop: a block in which a number with a borrowed name is used again after all that the body changes."""
        self.scope.loops += 1
        with self.block() as inner:
            yield inner
            for name, held in self.scope.borrowed.items():
                if held.used >= self.scope.loops > held.loops and self.scope.names.get(name) is held.value:
                    require_unchanged(self.errors, self.builder, name, held, self.builder.span)
                    held.used = self.scope.loops - 1
        self.scope.loops -= 1

    def over_elements(
        self, shape: Sequence[Length], body: Callable[[tuple[E, ...]], None], value: Value | None = None
    ) -> None:
        """body(indices) in loops over all indices of a shape, the last index moving fastest.

        Terms that are equal in all elements of `value` are computed once, in front of the loops.
        """
        if is_empty(shape):
            return
        builder = self.builder
        span = builder.span
        indices = tuple(Var(f"i{n}" if len(shape) > 1 else "i", Kind.INT, span) for n in range(len(shape)))
        for var, length in zip(indices, shape, strict=True):
            note_range(builder.ranges, var, length, builder.w)
        index = tuple(const(0, Kind.INT) if length == 1 else read(v) for v, length in zip(indices, shape, strict=True))
        builder.settled.update(indices)
        around, previous = builder.temporaries(), builder.enclosing
        if isinstance(value, Lazy) and is_known(shape):
            sample = element(value, index)
            if isinstance(sample, Scalar):
                around.hoist(sample.e, frozenset(indices))
        builder.enclosing = around
        with self.block() as inner:
            body(index)
        builder.enclosing = previous
        axes = [n for n, length in enumerate(shape) if length != 1]
        loops = around.loops([indices[n] for n in axes], [shape[n] for n in axes], tuple(inner))
        builder.emit(around.wrap(loops), made_of_blocks=True)


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


@dataclass(eq=False)
class Branches:
    """Lowers `if`, `while` and `assert`."""

    errors: Errors
    expressions: ExpressionLowering
    builder: IRBuilder
    blocks: Blocks
    statements: Callable[[Sequence[ast.stmt]], None]

    def _pair(self, node: ast.If | ast.While) -> tuple[ast.expr, ast.expr | None]:
        """(before, after) of `(before, after)`, or one condition and None. Their texts are kept for traps."""
        before, after = node.test, None
        if isinstance(node.test, ast.Tuple):
            if len(node.test.elts) != 2:
                hint = "write `and` or `or` between conditions"
                self.errors.fail("RG0701", "a pair of conditions is (before, after)", node.test, hint)
            before, after = node.test.elts
        module, span = self.builder.module, self.errors.span(before)
        first = condition(before, span)
        module.conditions[span] = first, first if after is None else condition(after, self.errors.span(after))
        if isinstance(node, ast.If):
            module.statement_texts[self.builder.span] = f"the condition `{shortened(node.test)}`"
        return before, after

    def lower_if(self, node: ast.If) -> None:
        before, after = self._pair(node)
        found = self.expressions.tested(before)
        if isinstance(found, Constant):
            # Only one branch is lowered, as part of this block.
            with self.blocks.block() as inner:
                self.statements(node.body if self.expressions.decided(found, before) else node.orelse)
            self.builder.emit(inner, made_of_blocks=True)
            return
        pre = self.expressions.condition(before)
        span = self.errors.span(before)
        t_pre = self.builder.temporaries()
        test = t_pre.test(pre)
        then, orelse = self._branch(node.body), self._branch(node.orelse)
        if after is None:
            parts = () if orelse else joined_by_and(pre)
            changes = self.builder.effects((*then, *orelse))
            clobbered = variables(pre) & changes.writes
            if clobbered:
                name = min(v.name for v in clobbered)
                where = where_changed(self.errors, [*node.body, *node.orelse], name)
                message = f"the body changes `{name}`{where}, on which the condition depends"
                hint = (
                    f"write `if ({shortened(before)}, …):`, the second condition being true exactly if the body was run"
                )
                self.errors.fail("RG0707", message, before, hint)

            def checked(condition: E) -> bool:
                return loads_clobbered(condition, changes)

            if len(parts) > 1:
                block = branch_on_all(parts, then, self.builder.temporaries(), span, checked)
            else:
                block = t_pre.wrap((If(test, then, orelse, test, span),), checked(pre))
            self.builder.emit(block, made_of_blocks=True)
            return
        post = self.expressions.condition(after)
        if has_cheap_operands(pre) and has_cheap_operands(post):
            t_post = self.builder.temporaries()
            block = branch_on((t_pre, test), then, orelse, (t_post, t_post.test(post)), span)
            self.builder.emit(block, made_of_blocks=True)
            return
        # A bit holds which branch was taken: it is set by one condition and cleared by the other.
        bit = Var("branch", BOOL, span)
        message = f"`{shortened(after)}` is {{truth}} after the `if`, and `{shortened(before)}` is {{other}} before it"
        still = Check(Test("eq", bit, ZERO), "RG0803", message, self.errors.span(after))
        taken = Test("ne", bit, ZERO)
        branch = If(taken, then, orelse, taken, span)
        set_bit, clear_bit = self._toggle(bit, pre), self._toggle(bit, post)
        self.builder.emit(
            (Local(bit, False, span), still, *set_bit, branch, *clear_bit, still, Delocal(bit, False, span)),
            made_of_blocks=True,
        )

    def _toggle(self, bit: Var, condition: E) -> Block:
        """bit ^= condition."""
        t = self.builder.temporaries()
        body: list[Node] = []
        t.into(body, bit, "xor", condition)
        return t.wrap(tuple(body))

    def _branch(self, body: Sequence[ast.stmt], repeated: bool = False) -> Block:
        previous = self.builder.span
        with self.blocks.repeated() if repeated else self.blocks.block() as inner:
            self.statements(body)
        self.builder.span = previous
        return tuple(inner)

    def lower_while(self, node: ast.While) -> None:
        refuse_else(self.errors, node)
        before, after = self._pair(node)
        if after is None:
            self._refuse_repeat(node.test)
            hint = f"write `while ({shortened(node.test)}, …):`, the second condition being false before the loop and true after each pass"
            message = "a `while` needs a second condition, to know when running backward where it began"
            self.errors.fail("RG0707", message, node.test, hint)
        span = self.errors.span(before)
        body = self._branch(node.body, repeated=True)
        pre, post = self.expressions.condition(before), self.expressions.condition(after)
        t = self.builder.temporaries()
        first: Block = ()
        head: Block = ()
        tail: Block = ()
        last: Block = ()
        if not has_cheap_operands(post):
            bit = Var("passed", BOOL, span)
            message = f"`{shortened(after)}` is true before the first pass of the loop, and must be false there"
            fresh = Check(Test("eq", bit, ZERO), "RG0803", message, self.errors.span(after))
            message = f"`{shortened(after)}` is false after a pass of the loop, and must be true there"
            passed = Check(Test("eq", bit, ZERO), "RG0803", message, self.errors.span(after))
            head = self._toggle(bit, opposite(post, self.builder.w))
            change = self._toggle(bit, post)
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
            tail = self._toggle(bit, opposite(pre, self.builder.w))
            change = self._toggle(bit, pre)
            first = (*first, Local(bit, False, span), made, *change)
            last = (over, *change, Delocal(bit, False, span), *last)
            pre_test = Test("ne", bit, ZERO)
        else:
            pre_test = t.test(pre)
        kept = Operands.of(t)
        loop = While(pre_test, (*kept.clear, *head, *body, *tail, *kept.compute), post_test, span)
        self.builder.emit(
            (*first, *kept.born, *kept.compute, loop, *kept.clear, *kept.freed, *last), made_of_blocks=True
        )

    def _refuse_repeat(self, test: ast.expr) -> None:
        """Raise RG0701 for `while rg.repeat(…)`."""
        called = self.expressions.value(test.func) if isinstance(test, ast.Call) else None
        if isinstance(called, Constant) and called.value is repeat:
            hint = "Write `for _ in rg.repeat(n == 0, until=x > limit):`."
            self.errors.fail("RG0701", "rg.repeat is a `for` loop, and no condition of a `while`", test, hint)

    def lower_repeat(self, node: ast.For, call: ast.Call) -> None:
        """Lower `for _ in rg.repeat(start, until=done): body`."""
        refuse_else(self.errors, node)
        start, until = self._ends(node, call)
        body = self._branch(node.body, repeated=True)
        begun, done = self.expressions.condition(start), self.expressions.condition(until)
        span, first = self.errors.span(until), self.errors.span(start)
        passed, again = Var("passed", BOOL, span), Var("again", BOOL, span)
        texts = f"`{shortened(start)}` is {{truth}}, and must be true before the first pass and false before each other pass"
        entered = Check(Test("ne", passed, ZERO), "RG0803", texts, first)
        texts = f"`{shortened(until)}` must be true after the last pass, and false after each pass before it"
        left = Check(Test("ne", again, ZERO), "RG0803", texts, span)
        inner = (*self._toggle(passed, begun), entered, *body, left, *self._toggle(again, done))
        set_again = Op(TABLE["mov.xor"], again, Const(1), None, 0, span)
        clear_passed = Op(TABLE["mov.xor"], passed, Const(1), None, 0, span)
        self.builder.emit(
            (
                *(Local(passed, False, span), Local(again, False, span), set_again),
                While(Test("ne", again, ZERO), inner, Test("ne", passed, ZERO), span),
                *(clear_passed, Delocal(again, False, span), Delocal(passed, False, span)),
            ),
            made_of_blocks=True,
        )

    def _ends(self, node: ast.For, call: ast.Call) -> tuple[ast.expr, ast.expr]:
        """The conditions (start, until) of a loop `rg.repeat`."""
        hint = "Write `for _ in rg.repeat(n == 0, until=x > limit):`; the first condition is true before the first pass only."
        given = dict(zip(("start", "until"), call.args, strict=False))
        for keyword in call.keywords:
            name = keyword.arg or "**"
            if name not in ("start", "until") or name in given:
                self.errors.fail(
                    "RG0715", f"rg.repeat takes `start` and `until`, and not `{name}` here", keyword.value, hint
                )
            given[name] = keyword.value
        if len(call.args) > 2 or len(given) < 2:
            count = len(call.args) + len(call.keywords)
            self.errors.fail("RG0715", f"rg.repeat takes two conditions, and is given {count}", call, hint)
        if not isinstance(node.target, ast.Name) or not node.target.id.startswith("_"):
            message = f"the passes of rg.repeat have no number, so `{shortened(node.target)}` has no value"
            self.errors.fail(
                "RG0703", message, node.target, "Write `for _ in rg.repeat(…):`, and count in a variable of your own."
            )
        return given["start"], given["until"]

    def lower_assert(self, node: ast.Assert) -> None:
        test = node.test
        found = self.expressions.tested(test)
        if isinstance(found, Constant):
            if not self.expressions.decided(found, test):
                self.errors.fail("RG0804", f"`{shortened(test)}` is false", test)
            return
        e = self.expressions.condition(test)
        t = self.builder.temporaries()
        claim = t.test(e)
        plain = e.args[0] if e.op == "not" else e
        compared = plain.op == "apply" and plain.param in ("slt", "sltu", "seq")
        span = self.errors.span(test)
        values = condition(test, span).values(claim.a, claim.b) if compared else ""
        check = Check(claim, "RG0804", f"`{shortened(test)}` is false{values}", span)
        self.builder.emit(t.wrap((check,)))


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


def refuse_else(errors: Errors, node: ast.For | ast.While) -> None:
    if node.orelse:
        hint = "Put these statements after the loop: it has no other way out."
        errors.fail("RG0701", "`else` of a loop is not in the language", node.orelse[0], hint)


def loads_clobbered(e: E, changes: AccessSets) -> bool:
    """Whether an expression loads from an array that statements change."""
    regions = {a.region for a, _ in loads(e)}
    return bool(regions) and (None in changes.stores or not regions.isdisjoint(changes.stores))


def where_changed(errors: Errors, body: Sequence[ast.stmt], name: str) -> str:
    """` in line 7`: the first statement of a body that may change a variable; empty if none is found."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.AugAssign | ast.Call | ast.Assign):
                changed = node.target if isinstance(node, ast.AugAssign) else node
                if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(changed)):
                    return f" in line {errors.span(node).line}"
    return ""
