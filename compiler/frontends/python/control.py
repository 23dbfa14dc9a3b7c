"""Branches and loops, with what tells running backward which way control came."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from itertools import islice

from retrograd.compiler.frontends.python.iterables import INDEX, MOST_COPIES, Item, Iterable, Iterables
from retrograd.compiler.frontends.python.operands import BOOL, INT
from retrograd.compiler.ir.effects import AccessSets
from retrograd.compiler.ir.expressions import E, add, apply, const, interval, loads, sub, variables
from retrograd.compiler.ir.statements import ZERO, Block, Check, Delocal, For, If, Local, Node, Test, Var, While
from retrograd.compiler.language.comparisons import blanks, shortened
from retrograd.compiler.language.values import Constant, Scalar, describe, variable


class Control(Iterables):
    """Statements with blocks inside."""

    def condition_pair(self, test: ast.expr) -> tuple[ast.expr, ast.expr | None]:
        """(before, after): `(pre, post)` as written, or one condition for both."""
        if isinstance(test, ast.Tuple):
            if len(test.elts) != 2:
                self.fail(
                    "RG0701", "a pair of conditions is (before, after)", test, "write `and` or `or` between conditions"
                )
            return test.elts[0], test.elts[1]
        return test, None

    def _if(self, node: ast.If) -> None:
        before, after = self.condition_pair(node.test)
        found = self.value(before)
        if isinstance(found, Constant):
            # Known now: only one branch is compiled, as part of this block.
            with self.block() as inner:
                self.statements(node.body if self.decided(found, before) else node.orelse)
            self.emit(inner)
            return
        pre = self.condition(before)
        span = self.source.span(before)
        if after is None:
            t = self.temporaries()
            test = t.test(pre)
            then, orelse = self._branch(node.body), self._branch(node.orelse)
            changes = self._changes((*then, *orelse))
            clobbered = variables(pre) & changes.writes
            if clobbered:
                name = min(v.name for v in clobbered)
                where = self._where_changed([*node.body, *node.orelse], name)
                hint = (
                    f"write `if ({shortened(before)}, …):`, the second condition being true exactly if the body was run"
                )
                self.fail("RG0707", f"the body changes `{name}`{where}, on which the condition depends", before, hint)
            checked = self._loads_clobbered(pre, changes)
            self.emit(t.wrap((If(test, then, orelse, test, span),), checked))
            return
        post_node = after
        t_pre = self.temporaries()
        test = t_pre.test(pre)
        then, orelse = self._branch(node.body), self._branch(node.orelse)
        post = self.condition(post_node)
        t_post = self.temporaries()
        post_test = t_post.test(post)
        if not t_pre.compute and not t_post.compute:
            self.emit((If(test, then, orelse, post_test, span),))
            return
        # The branch taken is kept in a bit, set by one condition and cleared by the other.
        bit = Var("branch", BOOL, span)
        message = (
            f"`{shortened(post_node)}` is {{truth}} after the `if`, and `{shortened(before)}` is {{other}} before it"
        )
        still = Check(Test("eq", bit, ZERO), "RG0803", message, self.source.span(post_node))
        taken = Test("ne", bit, ZERO)
        self.emit(
            (
                Local(bit, False, span),
                still,
                *self._set_bit(bit, pre),
                If(taken, then, orelse, taken, span),
                *self._set_bit(bit, post),
                still,
                Delocal(bit, False, span),
            )
        )

    def _set_bit(self, bit: Var, condition: E) -> Block:
        t = self.temporaries()
        body: list[Node] = []
        t.into(body, bit, "xor", condition)
        return t.wrap(tuple(body))

    def _branch(self, body: Sequence[ast.stmt]) -> Block:
        previous = self.node
        with self.block() as inner:
            self.statements(body)
        self.node = previous
        return tuple(inner)

    def _loads_clobbered(self, e: E, changes: AccessSets) -> bool:
        regions = {a.region for a in loads(e)}
        return bool(regions) and (None in changes.stores or not regions.isdisjoint(changes.stores))

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            hint = "Put these statements after the loop: it has no other way out."
            self.fail("RG0701", "`else` of a loop is not in the language", node.orelse[0], hint)
        before, after = self.condition_pair(node.test)
        if after is None:
            hint = f"write `while ({shortened(node.test)}, …):`, the second condition being false before the loop and true after each pass"
            self.fail(
                "RG0707",
                "a `while` needs a second condition, to know when running backward where it began",
                node.test,
                hint,
            )
        span = self.source.span(before)
        body = self._branch(node.body)
        pre, post = self.condition(before), self.condition(after)
        t_pre, t_post = self.temporaries(), self.temporaries()
        pre_test, post_test = t_pre.test(pre), t_post.test(post)
        first: list[Node] = []
        head: list[Node] = []
        tail: list[Node] = []
        last: list[Node] = []
        if t_post.compute:
            bit = Var("passed", BOOL, span)
            message = f"`{shortened(after)}` is true before the first pass of the loop, and must be false there"
            fresh = Check(Test("eq", bit, ZERO), "RG0803", message, self.source.span(after))
            change = self._set_bit(bit, post)
            first += [Local(bit, False, span), *change, fresh]
            head += change
            tail += change
            last += [*change, Delocal(bit, False, span)]
            post_test = Test("ne", bit, ZERO)
        if t_pre.compute:
            bit = Var("again", BOOL, span)
            message = f"`{shortened(before)}` is true after the last pass of the loop, where the loop would go on"
            over = Check(Test("eq", bit, ZERO), "RG0803", message, span)
            change = self._set_bit(bit, pre)
            first += [Local(bit, False, span), *change]
            head = [*change, *head]
            tail += change
            last = [over, *change, Delocal(bit, False, span), *last]
            pre_test = Test("ne", bit, ZERO)
        loop = While(pre_test, (*head, *body, *tail), post_test, span)
        self.emit((*first, loop, *last))

    def _for(self, node: ast.For) -> None:
        if node.orelse:
            hint = "Put these statements after the loop: it has no other way out."
            self.fail("RG0701", "`else` of a loop is not in the language", node.orelse[0], hint)
        found = self._iterable(node.iter)
        if isinstance(found, Constant):
            self._for_constants(node, found)
            return
        if found.copied:
            self._copies(node, [found.at(const(i, INT), self.w) for i in range(found.count.param)])
            return
        target = node.target
        if found.bounds is not None and not isinstance(target, ast.Name):
            self.fail("RG0701", f"`{shortened(target)}` is no name for an integer", target)
        name = next(n.id for n in ast.walk(target) if isinstance(n, ast.Name))
        start, stop, step = found.bounds or (const(0, INT), found.count, 1)

        def body(index: Scalar) -> None:
            self.bind_item(target, index if found.bounds is not None else found.item(index.e), node)
            self.statements(node.body)

        self._loop(name, start, stop, step, found, node, body)

    def _for_constants(self, node: ast.For, found: Constant) -> None:
        """Over constants: a copy of the body for each."""
        try:
            items = list(islice(found.value, MOST_COPIES + 1))
        except TypeError:
            self.fail("RG0703", f"{describe(found)} cannot be iterated over", node.iter)
        if len(items) > MOST_COPIES:
            hint = "Go through a range with `range(…)`, or make an array of the values: an argument, or a NumPy array at an index."
            message = f"the body of this loop would be compiled more than {MOST_COPIES} times, for each constant once"
            self.fail("RG0720", message, node.iter, hint)
        self._copies(node, [self.wrap(item) for item in items])

    def _copies(self, node: ast.For, items: Sequence[Item]) -> None:
        for item in items:
            with self.block() as inner:
                self.bind_item(node.target, item, node)
                self.statements(node.body)
            self.emit(inner)

    def _loop(
        self,
        name: str,
        start: E,
        stop: E,
        step: int,
        through: Iterable,
        node: ast.For,
        body: Callable[[Scalar], None],
    ) -> None:
        w = self.w
        span = self.source.span(node)
        var = Var(name, INT, self.source.span(node.target))
        if not loads(start) and not loads(stop):
            one = const(1, INT)
            between = (start, sub(stop, one, w)) if step > 0 else (add(stop, one, w), start)
            self.ranges.between[var] = between
        self.settled.add(var)
        start_bounds, stop_bounds = interval(start, self.ranges), interval(stop, self.ranges)
        some = False
        if start.op == "const" and stop.op == "const":
            count = len(range(w.signed(start.param), w.signed(stop.param), step))
            if count == 0:
                return
            first, some = w.signed(start.param), True
            stop = const(w.signed(first + count * step), INT)
            last = first + (count - 1) * step
            self.ranges[var] = (min(first, last), max(first, last))
        else:
            if start_bounds is not None and stop_bounds is not None:
                if stop_bounds[1] <= start_bounds[0] if step > 0 else stop_bounds[0] >= start_bounds[1]:
                    return  # there is nothing to go through
                if step > 0:
                    self.ranges[var] = (start_bounds[0], max(start_bounds[0], stop_bounds[1] - 1))
                    some = start_bounds[1] < stop_bounds[0]
                else:
                    self.ranges[var] = (min(start_bounds[1], stop_bounds[0] + 1), start_bounds[1])
                    some = start_bounds[0] > stop_bounds[1]
            elif start_bounds is not None and step > 0:
                self.ranges[var] = (start_bounds[0], w.sign - 1)
            ordered = some
            if start_bounds is not None and stop_bounds is not None:
                ordered = start_bounds[1] <= stop_bounds[0] if step > 0 else start_bounds[0] >= stop_bounds[1]
            # The count of what is gone through has been found from its own bounds.
            stop = stop if through.bounds is None else self._reached(start, stop, step, ordered)
        t = self.temporaries()
        a, b = t.operand(start), t.operand(stop)
        with self.block() as inner:
            body(variable(var, INDEX))
        changes = self._changes(tuple(inner))
        read = variables(start).union(variables(stop), *map(variables, through.reads))
        clobbered = read & changes.writes
        if clobbered:
            changed = min(v.name for v in clobbered)
            where = self._where_changed(node.body, changed)
            self.fail("RG0708", f"the body changes `{changed}`{where}, on which the loop's bounds depend", node.iter)
        if through.bounds is None and any(self._loads_clobbered(e, changes) for e in through.reads):
            self.fail("RG0708", "the body changes an array on which the loop's bounds depend", node.iter)
        checked = self._loads_clobbered(start, changes) or self._loads_clobbered(stop, changes)
        self.emit(t.wrap((For(var, a, b, step, tuple(inner), through.backward, some, span),), checked))

    def _reached(self, start: E, stop: E, step: int, ordered: bool) -> E:
        """The value that the index has after the last pass: start + step · ⌈max(0, stop − start) / step⌉.

        `ordered`: stop is known not to lie before start.
        """
        w = self.w
        if step in (1, -1):
            return stop if ordered else apply("max" if step > 0 else "min", INT, start, stop)
        travelled = apply("mul", INT, self.passes(start, stop, step), const(w.signed(step), INT))
        return add(start, travelled, w)

    def _assert(self, test: ast.expr) -> None:
        found = self.value(test)
        if isinstance(found, Constant):
            if not self.decided(found, test):
                self.fail("RG0804", f"`{shortened(test)}` is false", test)
            return
        e = self.condition(test)
        t = self.temporaries()
        claim = t.test(e)
        plain = e.args[0] if e.op == "not" else e
        values = blanks(test, claim.a, claim.b) if plain.op == "apply" and plain.param in ("slt", "seq") else ""
        check = Check(claim, "RG0804", f"`{shortened(test)}` is false{values}", self.source.span(test))
        self.emit(t.wrap((check,)))
