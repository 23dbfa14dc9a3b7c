"""Branches and loops, with what tells running backward which way control came."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from retrograd.compiler.arithmetic import number_kind
from retrograd.compiler.comparisons import blanks, shortened
from retrograd.compiler.expressions import E, add, apply, const, interval, loads, sub, variables
from retrograd.compiler.flatten import ZERO
from retrograd.compiler.footprint import Footprint
from retrograd.compiler.ir import Block, Check, Delocal, For, If, Local, Node, Test, Var, While
from retrograd.compiler.making import Making
from retrograd.compiler.operands import BOOL, INT
from retrograd.compiler.values import ArrayView, Constant, Lazy, Scalar, Value, describe, variable

#: constants that a loop may go through, with a copy of its body for each
_MOST_COPIES = 10_000


class Control(Making):
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

    def _loads_clobbered(self, e: E, changes: Footprint) -> bool:
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
        iterated = node.iter
        if isinstance(iterated, ast.Call):
            f = self.value(iterated.func)
            callee = f.value if isinstance(f, Constant) else None
            if callee is range:
                self._for_range(node, iterated)
                return
            if callee is enumerate or callee is zip or callee is reversed:
                given = [self.value(a) for a in iterated.args]
                if not iterated.keywords and all(isinstance(v, Constant) for v in given):
                    items = [v.value for v in given if isinstance(v, Constant)]
                    self._for_constants(node, Constant(self.guarded(iterated, lambda: list(callee(*items)))))
                    return
                self._for_arrays(node, callee, iterated.args)
                return
        found = self.value(iterated)
        if isinstance(found, Constant):
            self._for_constants(node, found)
            return
        self._for_arrays(node, None, [iterated])

    def _for_constants(self, node: ast.For, found: Constant) -> None:
        """Over constants: a copy of the body for each."""
        try:
            items = list(islice(found.value, _MOST_COPIES + 1))
        except TypeError:
            self.fail("RG0703", f"{describe(found)} cannot be iterated over", node.iter)
        if len(items) > _MOST_COPIES:
            hint = "Go through a range with `range(…)`, or make an array of the values: an argument, or a NumPy array at an index."
            message = f"the body of this loop would be compiled more than {_MOST_COPIES} times, for each constant once"
            self.fail("RG0720", message, node.iter, hint)
        for item in items:
            with self.block() as inner:
                self._bind(node.target, self.wrap(item), node)
                self.statements(node.body)
            self.emit(inner)

    def _for_range(self, node: ast.For, call: ast.Call) -> None:
        if not 1 <= len(call.args) <= 3 or call.keywords:
            self.fail("RG0715", "range takes one to three integers", call)
        for a in call.args:
            v = self.value(a)
            if isinstance(v, Constant) and number_kind(v.value) is INT and not -self.w.sign <= v.value < self.w.sign:
                self.fail("RG0714", f"the index of a loop cannot reach {v.value} in words of {self.w.width} bits", a)
        bounds = [self.scalar(a, INT) for a in call.args]
        step = self.static_int(call.args[2], "the step of a range") if len(bounds) == 3 else 1
        if step == 0:
            self.fail("RG0714", "the step of a range is zero", call)
        start = bounds[0] if len(bounds) > 1 else const(0, INT)
        stop = bounds[1] if len(bounds) > 1 else bounds[0]
        target = node.target
        if not isinstance(target, ast.Name):
            self.fail("RG0701", f"`{shortened(target)}` is no name for an integer", target)
        self._loop(target.id, start, stop, step, node, call, lambda: self.statements(node.body))

    def _loop(
        self, name: str, start: E, stop: E, step: int, node: ast.For, call: ast.AST, body: Callable[[], None]
    ) -> None:
        if name in self.names:
            self.fail("RG0706", f"`{name}` holds a value already", node.target)
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
            stop = self._reached(start, stop, step, ordered)
        t = self.temporaries()
        a, b = t.operand(start), t.operand(stop)
        with self.block() as inner:
            self.names[name] = variable(var, "it is the index of a loop")
            body()
        changes = self._changes(tuple(inner))
        clobbered = (variables(start) | variables(stop)) & changes.writes
        if clobbered:
            changed = min(v.name for v in clobbered)
            where = self._where_changed(node.body, changed)
            self.fail("RG0708", f"the body changes `{changed}`{where}, on which the loop's bounds depend", call)
        checked = self._loads_clobbered(start, changes) or self._loads_clobbered(stop, changes)
        self.emit(t.wrap((For(var, a, b, step, tuple(inner), False, some, span),), checked))

    def _reached(self, start: E, stop: E, step: int, ordered: bool) -> E:
        """The value that the index has after the last pass: start + step · ⌈max(0, stop − start) / step⌉.

        `ordered`: stop is known not to lie before start.
        """
        w = self.w
        if step in (1, -1):
            return stop if ordered else apply("max" if step > 0 else "min", INT, start, stop)
        distance = sub(stop, start, w) if step > 0 else sub(start, stop, w)
        size = abs(step)
        rounded = apply("div", INT, add(distance, const(size - 1, INT), w), const(size, INT))
        count = rounded if ordered else apply("max", INT, rounded, const(0, INT))
        travelled = apply("mul", INT, count, const(w.signed(step), INT))
        return add(start, travelled, w)

    def _for_arrays(self, node: ast.For, how: Any, args: Sequence[ast.expr]) -> None:
        """`for x in xs`, enumerate(xs), zip(xs, ys), reversed(xs): views of the elements."""
        arrays = [self.value(a) for a in args]
        for a, v in zip(args, arrays, strict=True):
            if not isinstance(v, ArrayView | Lazy) or not v.shape:
                self.fail("RG0703", f"`{shortened(a)}` is {describe(v)}, which cannot be iterated over", a)
        lengths = {v.shape[0] for v in arrays if isinstance(v, ArrayView | Lazy)}
        if len(lengths) != 1 or (how in (enumerate, reversed) and len(arrays) != 1):
            self.fail("RG0712", f"arrays of the lengths {sorted(lengths)} are gone through together", node.iter)
        (length,) = lengths
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        wanted = len(arrays) + (how is enumerate)
        if len(targets) != wanted or not all(isinstance(x, ast.Name) for x in targets):
            self.fail("RG0703", f"`{shortened(node.target)}` names {len(targets)} values of {wanted}", node.target)
        names = [x.id for x in targets if isinstance(x, ast.Name)]
        index_name = names[0] if how is enumerate else f"{names[0]}.index"
        own = names[1:] if how is enumerate else names

        def body() -> None:
            index = self.names[index_name]
            assert isinstance(index, Scalar)
            if how is not enumerate:
                del self.names[index_name]
            for x, v in zip(own, arrays, strict=True):
                if x in self.names:
                    self.fail("RG0706", f"`{x}` holds a value already", node.target)
                self.names[x] = self.first_axis(v, index.e)
            self.statements(node.body)

        start, stop, step = (length - 1, -1, -1) if how is reversed else (0, length, 1)
        w = self.w
        self._loop(index_name, const(w.signed(start), INT), const(w.signed(stop), INT), step, node, node.iter, body)

    def first_axis(self, v: Value, index: E) -> Value:
        """v[index], the index being in range."""
        if isinstance(v, ArrayView):
            inner = v.without(0, v.at(index))
            return inner if inner.shape else inner.item()
        if isinstance(v, Lazy):
            rest = v.shape[1:]
            return Lazy(rest, lambda more: v.element((index, *more))) if rest else v.element((index,))
        return v

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
