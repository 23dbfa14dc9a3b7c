"""Check elimination: bounds checks and other tests whose outcome is known are removed (range analysis).

    for i = 0 … n − 1: Check(i <ᵤ n)                    →  for i = 0 … n − 1: nothing
    for i = k + 1 … n − 1: Check(5 i − 5 k ≠ 0)         →  nothing
    Within((Check(x <ᵤ n),), … Check(x <ᵤ n) …)          →  Within((Check(x <ᵤ n),), …)         if x is unchanged there
    If t: a, else: b, post t                            →  a or b, if t is known and neither writes an operand of t
    for i = start … stop                                →  the same, with `some`, if start is before stop

Sources of knowledge: loop variables, constants, words of arrays that nothing writes, locals that a compute block sets
from these (`ir/ranges.py`), and the tests of enclosing Checks and Ifs.
Correct because all knowledge holds in both directions of execution. After `Check; x; Check` the second test is redundant
forward, but it comes first backward; so knowledge comes only from loops, from Ifs with the same test at both ends, and
from compute blocks, with which a `Within` begins in either direction. Of a compute block only the values that the body
leaves unchanged count, because compute⁻¹ would meet other words.
Traps: unchanged, as a removed test would not trap. Cost: none. Remarks: the known bounds of the operands of each test that stays in a loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis, AccessSets, clobbered_between, constant_regions, union
from retrograd.compiler.ir.instruction_selection import facts
from retrograd.compiler.ir.ranges import MIRRORED, AffineValue, Symbols
from retrograd.compiler.ir.text import relation_text
from retrograd.compiler.ir.traversal import map_bodies, rebuilt
from retrograd.isa.diagnostics import Span


def eliminate_checks(module: ir.Module) -> ir.Module:
    """Remove tests whose outcome is known."""
    eliminator = _Eliminator(module)
    return map_bodies(module, eliminator.plain).with_remarks("eliminate_checks", eliminator.remarks)


class _Eliminator:
    """One walk of each body, statements in order, with the values and tests known at the current statement.

    `trail` is the undo log: a structure leaves the knowledge that it found, less the variables that it writes.
    """

    def __init__(self, module: ir.Module) -> None:
        self.w = module.format
        self.symbols = Symbols(module.format)
        self.accesses = AccessAnalysis(module)
        self.data = _constant_data(module, self.accesses)
        self.values: dict[ir.Var, AffineValue] = {}
        self.tests: dict[ir.Var, tuple[ir.Test, ...]] = {}
        self.trail: list[tuple[ir.Var, AffineValue | None, tuple[ir.Test, ...]]] = []
        #: variables that the body of an enclosing Within changes, so that a value set by its compute block does not last
        self.unstable: Counter[ir.Var] = Counter()
        #: the innermost loop, and its place
        self.around: ir.For | ir.While | None = None
        self.remarks: list[tuple[Span | None, str]] = []

    # ------------------------------------------------------------------ knowledge

    def value(self, x: ir.Operand | None) -> AffineValue:
        if x is None:
            return self.symbols.constant(0)
        if isinstance(x, ir.Const):
            return self.symbols.constant(x.word)
        found = self.values.get(x)
        if found is None:
            found = self.symbols.unknown()
            self.learn(x, found)
        return found

    def learn(self, var: ir.Var, value: AffineValue) -> None:
        if not self.unstable[var]:
            self.trail.append((var, self.values.get(var), self.tests.get(var, ())))
            self.values[var] = value

    def forget(self, variables: Iterable[ir.Var]) -> None:
        for var in variables:
            if var in self.values or var in self.tests:
                self.trail.append((var, self.values.pop(var, None), self.tests.pop(var, ())))

    def assume(self, test: ir.Test) -> None:
        """Record a test that holds wherever the following statements run, in either direction."""
        for cc, x, y in (test, (MIRRORED[test.cc], test.b, test.a)):
            if isinstance(x, ir.Var):
                self.learn(x, self.symbols.narrowed(cc, self.value(x), self.value(y)))
        for x in (test.a, test.b):
            # Found under either operand, forgotten with either.
            if isinstance(x, ir.Var):
                self.trail.append((x, self.values.get(x), self.tests.get(x, ())))
                self.tests[x] = (*self.tests.get(x, ()), test)

    def truth(self, test: ir.Test) -> bool | None:
        """Whether the test is known to hold, or not to."""
        operands = [x for x in (test.a, test.b) if isinstance(x, ir.Var)]
        if not any(self.unstable[x] for x in operands):
            for known, holds in ((test, True), (test.negated(), False)):
                if operands and all(known in self.tests.get(x, ()) for x in operands):
                    return holds
        return self.symbols.holds(test.cc, self.value(test.a), self.value(test.b))

    def leave(self, mark: int, access: AccessSets) -> None:
        """Restore the knowledge at the mark, except of variables that have been written since."""
        while len(self.trail) > mark:
            var, value, tests = self.trail.pop()
            if value is None:
                self.values.pop(var, None)
            else:
                self.values[var] = value
            if tests:
                self.tests[var] = tests
            else:
                self.tests.pop(var, None)
        self.forget(access.writes)

    # ------------------------------------------------------------------ blocks

    def plain(self, block: ir.Block) -> ir.Block:
        """Walk a block that runs from its other end in the other direction, so that its statements add no knowledge."""
        return self.walk(block, False)

    def walk(self, block: ir.Block, computing: bool) -> ir.Block:
        out: list[ir.Node] = []
        for node in block:
            match node:
                case ir.Op():
                    self.follow(node, computing)
                    out.append(node)
                case ir.Local(var) | ir.Delocal(var):
                    self.forget((var,))
                    if computing and isinstance(node, ir.Local):
                        self.learn(var, self.symbols.constant(0))
                    out.append(node)
                case ir.Check(test, of=of) if of:
                    # A condition on derivatives gives no knowledge of the values.
                    if self.truth(test) is not True:
                        out.append(node)
                case ir.Check(test):
                    if self.truth(test) is not True:
                        out.append(node)
                        if self.around is not None:
                            self.remarks.append((self.around.span, self.reason(node)))
                        if computing:
                            self.assume(test)
                case ir.Within():
                    out.append(self.within(node))
                case ir.If():
                    out.extend(self.branch(node))
                case ir.For():
                    out.append(self.loop(node))
                case ir.While(body=body):
                    mark, access = len(self.trail), self.accesses.of(node)
                    self.forget(access.writes)
                    new = self.inside(node)
                    out.append(node if new is body else node._replace(body=new))
                    self.leave(mark, access)
                case ir.Call() | ir.External():
                    self.forget(self.accesses.of(node).writes)
                    out.append(node)
        return rebuilt(block, out)

    def within(self, node: ir.Within) -> ir.Within:
        mark = len(self.trail)
        unstable = clobbered_between(node, self.accesses).writes
        self.unstable.update(unstable)
        self.forget(unstable)
        compute = self.walk(node.compute, True)
        body = self.plain(node.body)
        self.leave(mark, self.accesses.of(node))
        self.forget(inner.var for inner in node.compute if isinstance(inner, ir.Local))
        for var in unstable:
            self.unstable[var] -= 1
        if compute is node.compute and body is node.body:
            return node
        return node._replace(compute=compute, body=body)

    def branch(self, node: ir.If) -> ir.Block:
        test, then, orelse, post, _ = node
        mark, access = len(self.trail), self.accesses.of(node)
        same = test == post and access.writes.isdisjoint((test.a, test.b))
        known = self.truth(test) if same else None
        if known is not None:
            taken = self.walk(then if known else orelse, False)
            self.leave(mark, access)
            return taken
        new: list[ir.Block] = []
        for block, holds in ((then, test), (orelse, test.negated())):
            inner = len(self.trail)
            if same:
                self.assume(holds)
            new.append(self.plain(block))
            self.leave(inner, access)
        self.leave(mark, access)
        return (node if new[0] is then and new[1] is orelse else node._replace(then=new[0], orelse=new[1]),)

    def loop(self, node: ir.For) -> ir.For:
        mark, access = len(self.trail), self.accesses.of(node)
        self.forget(union(map(self.accesses.of, node.body)).writes)
        start, stop = self.value(node.start), self.value(node.stop)
        difference, step = self.symbols.sum(stop, start, -1), node.step
        longest = difference.high if step > 0 else -difference.low
        s = self.symbols.unknown(0, max((longest - abs(step)) // abs(step), 0))
        var = self.symbols.sum(start, self.symbols.times(s, step))
        low, high = (start.low, stop.high - step) if step > 0 else (stop.low - step, start.high)
        if self.symbols.fits(stop.low - start.high, stop.high - start.low) and low <= high:
            # stop − start does not wrap, and so the variable lies between them.
            var = var._replace(low=max(var.low, low), high=min(var.high, high))
        self.learn(node.var, var)
        body = self.inside(node)
        self.leave(mark, access)
        self.forget((node.var,))
        certain = node.some or (difference.low >= step if step > 0 else difference.high <= step)
        return node if body is node.body and certain == node.some else node._replace(body=body, some=certain)

    def inside(self, loop: ir.For | ir.While) -> ir.Block:
        """Walk the body of a loop."""
        outer, self.around = self.around, loop
        body = self.plain(loop.body)
        self.around = outer
        return body

    def reason(self, check: ir.Check) -> str:
        """Why a test stays: the bounds of its operands."""
        test, symbols = check.test, self.symbols
        bounds = []
        for x in (test.a, test.b):
            if isinstance(x, ir.Var):
                low, high = self.value(x)[:2]
                anything = (low, high) == (symbols.least, symbols.most)
                bounds.append(f"`{x.name}` may be any number" if anything else f"`{x.name}` is in {low} … {high}")
        place = "" if check.span is None else f" of line {check.span.line}"
        text = f"the test `{relation_text(test, self.w)}`{place} stays: {', '.join(dict.fromkeys(bounds))}"
        # The compiler's own variables begin with a sign that no name of a program has.
        return text.replace("%", "")

    # ------------------------------------------------------------------ instructions

    def follow(self, op: ir.Op, computing: bool) -> None:
        old = self.values.get(op.d) if isinstance(op.d, ir.Var) else None
        new = self.value_after(op, old) if computing and old is not None else None
        self.forget(self.accesses.of(op).writes)
        if new is not None and isinstance(op.d, ir.Var):
            self.learn(op.d, new)

    def value_after(self, op: ir.Op, old: AffineValue) -> AffineValue | None:
        """The value of d after the update, as far as it is known."""
        f = facts(op.opcode)
        if not f.updates:
            return None
        if f.memory:
            ends = self.data.get(op.region)
            by = None if ends is None else self.symbols.unknown(*ends)
        elif op.opcode.group in ("moves", "integer"):
            by = self.symbols.function(op, self.value(op.a), self.value(op.b))
        else:
            by = None
        by = by or self.symbols.unknown()
        match op.opcode.update:
            case "add":
                return self.symbols.sum(old, by)
            case "sub":
                return self.symbols.sum(old, by, -1)
            case "xor" if old.low == old.high == 0:
                return by
        return None


def _constant_data(module: ir.Module, accesses: AccessAnalysis) -> dict[ir.Region | None, tuple[int, int]]:
    """The least and greatest word of each array that nothing writes."""
    w = module.format
    out: dict[ir.Region | None, tuple[int, int]] = {}
    for region in constant_regions(module, accesses):
        if region.data and len(region.data) == region.size:
            numbers = [w.signed(word) for word in region.data]
            out[region] = min(numbers), max(numbers)
    return out
