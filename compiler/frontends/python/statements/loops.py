"""Loops"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from retrograd.compiler.frontends.ir_builder import IRBuilder
from retrograd.compiler.frontends.python.errors import Errors
from retrograd.compiler.frontends.python.expressions.lowering import ExpressionLowering
from retrograd.compiler.frontends.python.sources.text import shortened
from retrograd.compiler.frontends.python.statements.assignments import Assignments
from retrograd.compiler.frontends.python.statements.blocks import Blocks
from retrograd.compiler.frontends.python.statements.branches import loads_clobbered, where_changed
from retrograd.compiler.frontends.python.statements.iterables import INDEX, MOST_COPIES, Item, Iterable, Iterables
from retrograd.compiler.frontends.scope import Scope
from retrograd.compiler.ir.expressions import E, add, apply, const, interval, loads, sub, variables
from retrograd.compiler.ir.statements import For, Kind, Var
from retrograd.compiler.language.values import Constant, Scalar, describe, variable

INT = Kind.INT


@dataclass(eq=False)
class Loops:
    """Lowers `for`."""

    errors: Errors
    expressions: ExpressionLowering
    builder: IRBuilder
    scope: Scope
    blocks: Blocks
    iterables: Iterables
    assignments: Assignments
    statements: Callable[[Sequence[ast.stmt]], None]

    def lower(self, node: ast.For) -> None:
        if node.orelse:
            hint = "Put these statements after the loop: it has no other way out."
            self.errors.fail("RG0701", "`else` of a loop is not in the language", node.orelse[0], hint)
        self.builder.module.statement_texts[self.builder.span] = f"the bounds `{shortened(node.iter)}`"
        found = self.iterables.lower(node.iter)
        if isinstance(found, Constant):
            self._over_constants(node, found)
            return
        if found.copied:
            self._copies(node, [found.at(const(i, INT), self.builder.w) for i in range(found.count.param)])
            return
        target = node.target
        if found.bounds is not None and not isinstance(target, ast.Name):
            self.errors.fail("RG0701", f"`{shortened(target)}` is no name for an integer", target)
        name = next(n.id for n in ast.walk(target) if isinstance(n, ast.Name))
        start, stop, step = found.bounds or (const(0, INT), found.count, 1)

        def body(index: Scalar) -> None:
            self._bind_item(target, index if found.bounds is not None else found.item(index.e), node)
            self.statements(node.body)

        self._loop(name, start, stop, step, found, node, body)

    def _over_constants(self, node: ast.For, found: Constant) -> None:
        """Over constants: a copy of the body for each."""
        try:
            items = list(islice(found.value, MOST_COPIES + 1))
        except TypeError:
            self.errors.fail("RG0703", f"{describe(found)} cannot be iterated over", node.iter)
        if len(items) > MOST_COPIES:
            hint = "Go through a range with `range(…)`, or make an array of the values: an argument, or a NumPy array at an index."
            message = f"the body of this loop would be compiled more than {MOST_COPIES} times, for each constant once"
            self.errors.fail("RG0720", message, node.iter, hint)
        self._copies(node, [self.expressions.wrap(item) for item in items])

    def _copies(self, node: ast.For, items: Sequence[Item]) -> None:
        for item in items:
            with self.blocks.block() as inner:
                self._bind_item(node.target, item, node)
                self.statements(node.body)
            self.builder.emit(inner)

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
        w = self.builder.w
        span = self.errors.span(node)
        var = Var(name, INT, self.errors.span(node.target))
        if not loads(start) and not loads(stop):
            one = const(1, INT)
            between = (start, sub(stop, one, w)) if step > 0 else (add(stop, one, w), start)
            self.builder.ranges.between[var] = between
        self.builder.settled.add(var)
        start_bounds, stop_bounds = interval(start, self.builder.ranges), interval(stop, self.builder.ranges)
        some = False
        if start.op == "const" and stop.op == "const":
            count = len(range(w.signed(start.param), w.signed(stop.param), step))
            if count == 0:
                return
            first, some = w.signed(start.param), True
            stop = const(w.signed(first + count * step), INT)
            last = first + (count - 1) * step
            self.builder.ranges[var] = (min(first, last), max(first, last))
        else:
            if start_bounds is not None and stop_bounds is not None:
                if stop_bounds[1] <= start_bounds[0] if step > 0 else stop_bounds[0] >= start_bounds[1]:
                    return  # there is nothing to go through
                if step > 0:
                    self.builder.ranges[var] = (start_bounds[0], max(start_bounds[0], stop_bounds[1] - 1))
                    some = start_bounds[1] < stop_bounds[0]
                else:
                    self.builder.ranges[var] = (min(start_bounds[1], stop_bounds[0] + 1), start_bounds[1])
                    some = start_bounds[0] > stop_bounds[1]
            elif start_bounds is not None and step > 0:
                self.builder.ranges[var] = (start_bounds[0], w.sign - 1)
            ordered = some
            if start_bounds is not None and stop_bounds is not None:
                ordered = start_bounds[1] <= stop_bounds[0] if step > 0 else start_bounds[0] >= stop_bounds[1]
            # The count of what is gone through has been found from its own bounds.
            stop = stop if through.bounds is None else self._reached(start, stop, step, ordered)
        t = self.builder.temporaries()
        a, b = t.operand(start), t.operand(stop)
        with self.blocks.block() as inner:
            body(variable(var, INDEX))
        changes = self.builder.effects(tuple(inner))
        read = variables(start).union(variables(stop), *map(variables, through.reads))
        clobbered = read & changes.writes
        if clobbered:
            changed = min(v.name for v in clobbered)
            where = where_changed(self.errors, node.body, changed)
            message = f"the body changes `{changed}`{where}, on which the loop's bounds depend"
            self.errors.fail("RG0708", message, node.iter)
        if through.bounds is None and any(loads_clobbered(e, changes) for e in through.reads):
            self.errors.fail("RG0708", "the body changes an array on which the loop's bounds depend", node.iter)
        checked = loads_clobbered(start, changes) or loads_clobbered(stop, changes)
        self.builder.emit(t.wrap((For(var, a, b, step, tuple(inner), through.backward, some, span),), checked))

    def _reached(self, start: E, stop: E, step: int, ordered: bool) -> E:
        """The value that the index has after the last pass: start + step · ⌈max(0, stop − start) / step⌉.

        `ordered`: stop is known not to lie before start.
        """
        w = self.builder.w
        if step in (1, -1):
            return stop if ordered else apply("max" if step > 0 else "min", INT, start, stop)
        travelled = apply("mul", INT, self.iterables.passes(start, stop, step), const(w.signed(step), INT))
        return add(start, travelled, w)

    def _bind_item(self, target: ast.expr, item: Item, node: ast.For) -> None:
        """Name what one pass of a loop works on."""
        if isinstance(item, Constant):
            self.assignments.bind(target, item, node)
            return
        targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        if isinstance(item, tuple):
            if len(targets) != len(item):
                message = f"`{shortened(target)}` names {len(targets)} value{'s' * (len(targets) != 1)} of {len(item)}"
                self.errors.fail("RG0703", message, target)
            for x, v in zip(targets, item, strict=True):
                self._bind_item(x, v, node)
            return
        if not isinstance(target, ast.Name):
            if isinstance(target, ast.Tuple | ast.List):
                self.errors.fail("RG0703", f"`{shortened(target)}` names {len(targets)} values of 1", target)
            self.errors.fail("RG0701", f"`{shortened(target)}` is no name for what a loop goes through", target)
        if target.id in self.scope.names:
            self.errors.fail("RG0706", f"`{target.id}` holds a value already", target)
        self.scope.names[target.id] = item
