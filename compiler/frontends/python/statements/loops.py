"""`for`: a reversible loop with an index, or a copy of the body for each of some constants.

The bounds of a loop are computed again when it runs backward, so the body may not change their operands.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from retrograd.compiler.frontends.builder import Borrowed, IRBuilder, Scope
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.expressions.lowering import ExpressionLowering
from retrograd.compiler.frontends.python.statements.assignments import Assignments
from retrograd.compiler.frontends.python.statements.blocks import Blocks
from retrograd.compiler.frontends.python.statements.branches import loads_clobbered, refuse_else, where_changed
from retrograd.compiler.frontends.python.statements.iterables import INDEX, MOST_COPIES, Item, Iterable, Iterables
from retrograd.compiler.frontends.python.text import shortened
from retrograd.compiler.ir.expressions import E, add, apply, const, interval, loads, sub, variables
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import For, Kind, Region, Var
from retrograd.compiler.language.values import Constant, describe, is_number, scalars, variable

INT = Kind.INT


@dataclass(eq=False)
class Loops:
    """Lowers `for` loops."""

    errors: Errors
    expressions: ExpressionLowering
    builder: IRBuilder
    scope: Scope
    blocks: Blocks
    iterables: Iterables
    assignments: Assignments
    statements: Callable[[Sequence[ast.stmt]], None]
    #: lowers a loop through `rg.repeat`
    repeat: Callable[[ast.For, ast.Call], None]

    def lower(self, node: ast.For) -> None:
        repeated = self.iterables.repeated(node.iter)
        if repeated is not None:
            self.repeat(node, repeated)
            return
        refuse_else(self.errors, node)
        self.builder.module.statement_texts[self.builder.span] = f"the bounds `{shortened(node.iter)}`"
        found = self.iterables.lower(node.iter)
        if isinstance(found, Constant):
            self._over_constants(node, found)
            return
        if found.copied:
            self._limit_copies(found.count.param, node)
            self._copies(node, [found.at(const(i, INT), self.builder.w) for i in range(found.count.param)])
            return
        target = node.target
        if found.bounds is not None and not isinstance(target, ast.Name):
            self.errors.fail("RG0701", f"`{shortened(target)}` is no name for an integer", target)
        self._loop(node, found)

    def _over_constants(self, node: ast.For, found: Constant) -> None:
        """Lower a copy of the body for each of some constants."""
        try:
            items = list(islice(found.value, MOST_COPIES + 1))
        except TypeError:
            self.errors.fail("RG0703", f"{describe(found)} cannot be iterated over", node.iter)
        self._limit_copies(len(items), node)
        self._copies(node, [self.expressions.wrap(item) for item in items])

    def _limit_copies(self, count: int, node: ast.For) -> None:
        """Refuse a body that would be compiled too often."""
        if count > MOST_COPIES:
            hint = "Go through a range with `range(…)`, or make an array of the values: an argument, or a NumPy array at an index."
            message = f"the body of this loop would be compiled more than {MOST_COPIES} times, for each constant once"
            self.errors.fail("RG0720", message, node.iter, hint)

    def _copies(self, node: ast.For, items: Sequence[Item]) -> None:
        # All items are those of the beginning.
        versions = Counter(self.builder.versions)
        for item in items:
            with self.blocks.block() as inner:
                self._bind_item(node.target, item, node, versions)
                self.statements(node.body)
            self.builder.emit(inner, made_of_blocks=True)

    def _loop(self, node: ast.For, through: Iterable) -> None:
        name = next(n for n in ast.walk(node.target) if isinstance(n, ast.Name))
        # Through an array, the name of the source means the element, and not the index.
        var = Var("%index" if through.bounds is None else name.id, INT, self.errors.span(node.target))
        w, t = self.builder.w, self.builder.temporaries()
        if through.bounds is not None and self.iterables.wraps_to_start(*through.bounds):
            through = self._counted(through, *through.bounds, t)
        start, stop, step = through.bounds or (const(0, INT), through.count, 1)
        below = 0
        if through.bounds is None and stop.op == "const" and stop.param & w.mask >= w.sign:
            # The count is no signed word, so the index of the loop begins below 0.
            count = stop.param & w.mask
            below = count - count // 2
            start, stop = const(-below, INT), const(count // 2, INT)
        self.builder.settled.add(var)
        if through.bounds is None and through.most is not None and through.most > w.sign:
            some = False
        else:
            reached = self._bounded(var, start, stop, step)
            if reached is None:
                return
            last, some = reached
            # The count of other iterables was computed from their own bounds.
            stop = stop if through.bounds is None and stop.op != "const" else last
        a, b = t.operand(start), t.operand(stop)
        with self.blocks.repeated() as inner:
            index = variable(var, INDEX)
            item = (
                index
                if through.bounds is not None
                else through.item(add(index.e, const(below, INT), w) if below else index.e)
            )
            self._bind_item(node.target, item, node, self.builder.versions)
            self.statements(node.body)
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
        loop = For(var, a, b, step, tuple(inner), through.backward, some, self.errors.span(node))
        self.builder.emit(t.wrap((loop,), checked), made_of_blocks=True)

    def _counted(self, through: Iterable, start: E, stop: E, step: int, t: Temporaries) -> Iterable:
        """A range as a loop over the numbers of its passes: `for k in range(passes)` with the index start + k · step.

        After 2^W / |step| passes the index has wrapped to its start. A loop over the index, which ends where the index is `stop`, would
        make no pass at all.
        """
        first = t.operand(start)
        origin = variable(first, INDEX).e if isinstance(first, Var) else const(self.builder.w.signed(first.word), INT)
        return replace(through, bounds=None, item=self.iterables.progression(origin, step), reads=())

    def _bounded(self, var: Var, start: E, stop: E, step: int) -> tuple[E, bool] | None:
        """Record the range of an index: (its value after the last pass, whether there is a pass for certain).

        None where there is certainly no pass.
        """
        w, ranges = self.builder.w, self.builder.ranges
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
        return self._reached(start, stop, step, ordered), some

    def _reached(self, start: E, stop: E, step: int, ordered: bool) -> E:
        """The value that the index has after the last pass: start + step · ⌈max(0, stop − start) / step⌉.

        `ordered`: stop certainly does not lie before start.
        """
        w = self.builder.w
        if step in (1, -1):
            return stop if ordered else apply("max" if step > 0 else "min", INT, start, stop)
        travelled = apply("mul", INT, self.iterables.passes(start, stop, step), const(w.signed(step), INT))
        return add(start, travelled, w)

    def _bind_item(self, target: ast.expr, item: Item, node: ast.For, versions: Counter[Var | Region]) -> None:
        """Name the item of one pass, as it is in these versions."""
        if isinstance(item, Constant):
            self.assignments.bind(target, item, node)
            return
        targets = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        if isinstance(item, tuple):
            if len(targets) != len(item):
                message = f"`{shortened(target)}` names {len(targets)} value{'s' * (len(targets) != 1)} of {len(item)}"
                self.errors.fail("RG0703", message, target)
            for x, v in zip(targets, item, strict=True):
                self._bind_item(x, v, node, versions)
            return
        if not isinstance(target, ast.Name):
            if isinstance(target, ast.Tuple | ast.List):
                hint = f"write `for {shortened(target)[1:-1]} in enumerate({shortened(node.iter)}):` for the index and the value"
                message = f"`{shortened(target)}` names {len(targets)} values of 1"
                self.errors.fail("RG0703", message, target, hint if len(targets) == 2 else None)
            self.errors.fail("RG0701", f"`{shortened(target)}` is no name for what a loop goes through", target)
        if target.id in self.scope.names:
            self.errors.fail("RG0706", f"`{target.id}` holds a value already", target)
        self.scope.names[target.id] = item
        parts = tuple(scalars(item)) if is_number(item) else ()
        if any(part.place is not None for part in parts) and target.id not in self.assignments.changed:
            taken = {p: versions[p] for p in self.builder.snapshot(*(part.e for part in parts))}
            self.scope.borrowed[target.id] = Borrowed(item, parts, taken, self.scope.loops)
