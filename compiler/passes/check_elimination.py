"""eliminate_checks: what is known to hold is not tested.

    for i = 0 … n − 1: Check(i <ᵤ n)                    →  for i = 0 … n − 1: nothing
    for i = k + 1 … n − 1: Check(5 i − 5 k ≠ 0)         →  nothing
    Within((Check(x <ᵤ n),), … Check(x <ᵤ n) …)          →  Within((Check(x <ᵤ n),), …)         x unchanged there
    If t: a, else: b, post t                            →  a or b, where t is known and neither writes what it reads
    for i = start … stop                                →  the same, with `some`, where start is before stop

Known are the variables of loops, constants, words of arrays that nothing writes, and locals that a Within computes of
such (see `ranges`); and the tests of Checks and Ifs around. Traps are unchanged: what is dropped would not trap.

Trap to avoid: what is known must be so in both directions. Forward, `Check; x; Check` could do without the second; backward
that one comes first. So knowledge comes only from loops, from Ifs that test the same at both ends, and from what Withins
compute, as these begin with that in either direction; of that, only from what the body leaves as it is, or compute⁻¹ would
meet other words than compute did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from retrograd.compiler.ir.effects import AccessAnalysis, AccessSets, clobbered_between, union
from retrograd.compiler.ir.opcode_facts import facts
from retrograd.compiler.ir.ranges import Symbols, Value
from retrograd.compiler.ir.statements import (
    Block,
    Call,
    Check,
    Const,
    Delocal,
    External,
    For,
    If,
    Local,
    Module,
    Node,
    Op,
    Operand,
    Region,
    Test,
    Var,
    While,
    Within,
)
from retrograd.compiler.ir.traversal import bodies, map_bodies


def eliminate_checks(module: Module) -> Module:
    """Drop what is tested and known."""
    walker = _Walker(module)
    return map_bodies(module, walker.plain)


class _Walker:
    """One walk of each body, statements in order, with what is known at the place where it stands.

    `trail` says what was known before, so that each structure leaves behind what it found, less what it writes.
    """

    def __init__(self, module: Module) -> None:
        self.w = module.format
        self.symbols = Symbols(module.format)
        self.accesses = AccessAnalysis(module)
        self.data = _constant_data(module, self.accesses)
        self.values: dict[Var, Value] = {}
        self.tests: dict[Var, tuple[Test, ...]] = {}
        self.trail: list[tuple[Var, Value | None, tuple[Test, ...]]] = []
        #: variables that the body of a Within around changes: what its compute gives them is not for long
        self.unstable: Counter[Var] = Counter()

    # ------------------------------------------------------------------ what is known

    def value(self, x: Operand | None) -> Value:
        if x is None:
            return self.symbols.constant(0)
        if isinstance(x, Const):
            return self.symbols.constant(x.word)
        found = self.values.get(x)
        if found is None:
            found = self.symbols.unknown()
            self.learn(x, found)
        return found

    def learn(self, var: Var, value: Value) -> None:
        if not self.unstable[var]:
            self.trail.append((var, self.values.get(var), self.tests.get(var, ())))
            self.values[var] = value

    def forget(self, variables: Iterable[Var]) -> None:
        for var in variables:
            if var in self.values or var in self.tests:
                self.trail.append((var, self.values.pop(var, None), self.tests.pop(var, ())))

    def assume(self, test: Test) -> None:
        """What follows runs only if the test holds, in either direction."""
        mirrored = Test(_MIRRORED[test.cc], test.b, test.a) if test.cc in _MIRRORED else None
        for side in (test, mirrored):
            if side is None or not isinstance(side.a, Var):
                continue
            narrowed = self.symbols.narrowed(side.cc, self.value(side.a), self.value(side.b))
            self.learn(side.a, narrowed)
        for x in (test.a, test.b):
            # Found under either operand, forgotten with either.
            if isinstance(x, Var):
                self.trail.append((x, self.values.get(x), self.tests.get(x, ())))
                self.tests[x] = (*self.tests.get(x, ()), test)

    def truth(self, test: Test) -> bool | None:
        """Whether the test is known to hold, or not to."""
        operands = [x for x in (test.a, test.b) if isinstance(x, Var)]
        if not any(self.unstable[x] for x in operands):
            for known, holds in ((test, True), (test.negated(), False)):
                if operands and all(known in self.tests.get(x, ()) for x in operands):
                    return holds
        return self.symbols.holds(test.cc, self.value(test.a), self.value(test.b))

    def leave(self, mark: int, access: AccessSets) -> None:
        """Know again what was known at the mark, but of what has been written since."""
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

    def plain(self, block: Block) -> Block:
        """A block that runs from the other end in the other direction."""
        return self.walk(block, False)

    def walk(self, block: Block, computing: bool) -> Block:
        out: list[Node] = []
        for node in block:
            match node:
                case Op():
                    self.follow(node, computing)
                    out.append(node)
                case Local(var) | Delocal(var):
                    self.forget((var,))
                    if computing and isinstance(node, Local):
                        self.learn(var, self.symbols.constant(0))
                    out.append(node)
                case Check(test):
                    if self.truth(test) is not True:
                        out.append(node)
                        if computing:
                            self.assume(test)
                case Within():
                    out.append(self.within(node))
                case If():
                    out.extend(self.branch(node))
                case For():
                    out.append(self.loop(node))
                case While(body=body):
                    mark, access = len(self.trail), self.accesses.of(node)
                    self.forget(access.writes)
                    new = self.plain(body)
                    out.append(node if new is body else node._replace(body=new))
                    self.leave(mark, access)
                case Call() | External():
                    self.forget(self.accesses.of(node).writes)
                    out.append(node)
        same = len(out) == len(block) and all(x is y for x, y in zip(out, block, strict=True))
        return block if same else tuple(out)

    def within(self, node: Within) -> Within:
        mark = len(self.trail)
        unstable = clobbered_between(node, self.accesses).writes
        self.unstable.update(unstable)
        self.forget(unstable)
        compute = self.walk(node.compute, True)
        body = self.plain(node.body)
        self.leave(mark, self.accesses.of(node))
        self.forget(inner.var for inner in node.compute if isinstance(inner, Local))
        for var in unstable:
            self.unstable[var] -= 1
        if compute is node.compute and body is node.body:
            return node
        return node._replace(compute=compute, body=body)

    def branch(self, node: If) -> Block:
        test, then, orelse, post, _ = node
        mark, access = len(self.trail), self.accesses.of(node)
        same = test == post and access.writes.isdisjoint((test.a, test.b))
        known = self.truth(test) if same else None
        if known is not None:
            taken = self.walk(then if known else orelse, False)
            self.leave(mark, access)
            return taken
        new: list[Block] = []
        for block, holds in ((then, test), (orelse, test.negated())):
            inner = len(self.trail)
            if same:
                self.assume(holds)
            new.append(self.plain(block))
            self.leave(inner, access)
        self.leave(mark, access)
        return (node if new[0] is then and new[1] is orelse else node._replace(then=new[0], orelse=new[1]),)

    def loop(self, node: For) -> For:
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
        body = self.plain(node.body)
        self.leave(mark, access)
        self.forget((node.var,))
        certain = node.some or (difference.low >= step if step > 0 else difference.high <= step)
        return node if body is node.body and certain == node.some else node._replace(body=body, some=certain)

    # ------------------------------------------------------------------ instructions

    def follow(self, op: Op, computing: bool) -> None:
        old = self.values.get(op.d) if isinstance(op.d, Var) else None
        new = self.value_after(op, old) if computing and old is not None else None
        self.forget(self.accesses.of(op).writes)
        if new is not None and isinstance(op.d, Var):
            self.learn(op.d, new)

    def value_after(self, op: Op, old: Value) -> Value | None:
        """What d holds after the update, as far as that is known."""
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


#: cc(x, y) -> cc'(y, x) that says the same, where there is one
_MIRRORED = {"eq": "eq", "ne": "ne"}


def _constant_data(module: Module, accesses: AccessAnalysis) -> dict[Region | None, tuple[int, int]]:
    """The ends of what arrays hold that nothing writes."""
    stored = union(accesses.block(block) for block in bodies(module)).stores
    if None in stored:
        return {}
    w = module.format
    out: dict[Region | None, tuple[int, int]] = {}
    for region in module.regions:
        if region.data and len(region.data) == region.size and region not in stored:
            numbers = [w.signed(word) for word in region.data]
            out[region] = min(numbers), max(numbers)
    return out
