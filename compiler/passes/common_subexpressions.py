"""Common-subexpression elimination and loop-invariant code motion for compute blocks.

A `Within(compute, body)` runs `compute`, then `body`, then `compute⁻¹`. Where neighbouring Withins share a part P of their
compute blocks, P is computed once around all of them; where a loop's body computes a P that the loop does not change, P
moves in front of the loop:

    Within(P + A, a); x; Within(P + B, b)  →  Within(P, (Within(A, a), x, Within(B, b)))     if x writes no operand of P
    for …: (x; Within(P + A, a); y)        →  Within(P, for …: (x; Within(A, a); y))         if x, y and the loop do not

Correct because P⁻¹ followed by P is the identity, and P commutes with x. Candidates are found by value numbering
(`ir/value_numbering.py`), so their order within a block does not matter; a block that cannot be cut is shared as a whole.
Traps: P may run less often than before, so a trap may disappear; none is added. P leaves a loop that may run zero times only
if it cannot trap, and any loop only if no promise is tested before it.
Cotangents of shared temporaries are summed before they are rounded.
Cost: shared temporaries live longer; `max_live` bounds how many of one group or loop and those around it are live at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis, AccessSets, union
from retrograd.compiler.ir.traversal import map_bodies, map_children
from retrograd.compiler.ir.value_numbering import NumberedValue, Renaming, ValueNumbering


def eliminate_common_subexpressions(
    module: ir.Module, *, max_live: int = 24, window: int = 16, hoist: bool = True
) -> ir.Module:
    """Share equal values of compute blocks. `window`: how many statements may lie between two Withins that share."""
    eliminator = _Eliminator(module, max_live, window, hoist)
    return map_bodies(module, lambda body: eliminator.block(body, 0))


_FLAT = (ir.Op, ir.Local, ir.Delocal, ir.Check, ir.Call, ir.External)


class _Eliminator:
    def __init__(self, module: ir.Module, max_live: int, window: int, hoist: bool) -> None:
        self.accesses = AccessAnalysis(module)
        self.numbering = ValueNumbering(module, self.accesses)
        self.max_live = max_live
        self.window = window
        self.hoist = hoist

    def block(self, block: ir.Block, held: int) -> ir.Block:
        """The block with its inner blocks done first, then its own statements."""
        if all(isinstance(node, _FLAT) for node in block):
            return block
        nodes: list[ir.Node] = []
        for node in block:
            nodes.extend((node,) if isinstance(node, _FLAT) else self.node(node, held))
        return self.group(nodes, held)

    def node(self, node: ir.Node, held: int) -> ir.Block:
        match map_children(node, lambda inner: self.block(inner, held)):
            case ir.Within() as within:
                return (self.merge_equal_values(within),)
            case ir.For() | ir.While() as loop:
                return self.leave_loop(loop, held)
            case ir.Op() | ir.Local() | ir.Delocal() | ir.If() | ir.Call() | ir.Check() | ir.External() as same:
                return (same,)

    def computed(self, node: ir.Node) -> list[NumberedValue]:
        """The values of a Within; none where two are equal that must stay apart."""
        if not isinstance(node, ir.Within) or any(map(_tests_for_zero, node.compute)):
            # A test that an ancilla is zero holds at one moment only: it stays where it is.
            return []
        values = self.numbering.of(node.compute)
        return values if len({value.number for value in values}) == len(values) else []

    # ------------------------------------------------------------------ in one compute block

    def merge_equal_values(self, within: ir.Within) -> ir.Within:
        """Equal values of one compute block become one, where the body changes none of their locals."""
        values = self.numbering.of(within.compute)
        if len({value.number for value in values}) == len(values):
            return within
        changed = self.accesses.block(within.body).writes
        first: dict[int, NumberedValue] = {}
        names: dict[ir.Var, ir.Var] = {}
        kept: list[ir.Node] = []
        for value in values:
            twin = first.setdefault(value.number, value)
            if twin is value or not value.weight or not changed.isdisjoint([*twin.locals, *value.locals]):
                kept.extend(value.statements)
            else:
                names.update(zip(value.locals, twin.locals, strict=True))
        renaming = Renaming(names)
        return within._replace(compute=renaming.block(tuple(kept)), body=renaming.block(within.body))

    # ------------------------------------------------------------------ side by side

    def group(self, nodes: Sequence[ir.Node], held: int) -> ir.Block:
        """Groups of statements with values in common, each group within these values."""
        if sum([isinstance(node, ir.Within) for node in nodes]) < 2:
            return tuple(nodes)
        computed = [self.computed(node) for node in nodes]
        following = _next_with_equal_value(computed)
        out: list[ir.Node] = []
        i = 0
        while i < len(nodes):
            if following[i] - i <= self.window + 1 and held < self.max_live:
                members, common = self.extend(nodes, computed, i)
                shared = self.choose(computed[i], common, held)
                if len(members) > 1 and shared:
                    end = members[-1] + 1
                    out.extend(self.enclose(nodes[i:end], computed[i:end], {m - i for m in members}, shared, held))
                    i = end
                    continue
            out.append(nodes[i])
            i += 1
        return tuple(out)

    def extend(
        self, nodes: Sequence[ir.Node], computed: Sequence[list[NumberedValue]], first: int
    ) -> tuple[list[int], set[int]]:
        """The members of a group that begins here, and the numbers of the values that they have in common."""
        members, common = [first], {value.number for value in computed[first]}
        passing = common
        j = first + 1
        while j < len(nodes) and j - members[-1] <= self.window + 1 and passing:
            if computed[j]:
                both = _closed(computed[first], passing & {value.number for value in computed[j]})
                if any(value.weight for value in computed[first] if value.number in both):
                    members.append(j)
                    common = passing = both
                    j += 1
                    continue
            passing = self.crossing(computed[first], passing, nodes[j])
            j += 1
        return members, common

    def crossing(self, values: Iterable[NumberedValue], numbers: set[int], node: ir.Node) -> set[int]:
        """The values that commute with the statement."""
        access = self.accesses.of(node)
        stuck = {c.number for c in values if c.number in numbers and not access.commutes(c.access)}
        return _closed(values, numbers - stuck) if stuck else numbers

    def choose(self, values: Iterable[NumberedValue], common: set[int], held: int) -> list[NumberedValue]:
        """The common values for which there is room."""
        room = self.max_live - held
        chosen: dict[int, NumberedValue] = {}
        for value in values:
            if value.number in common and value.number not in chosen:
                room -= len(value.locals)
                if room < 0:
                    break
                chosen[value.number] = value
        return list(chosen.values()) if any(value.weight for value in chosen.values()) else []

    def enclose(
        self,
        nodes: Sequence[ir.Node],
        computed: Sequence[list[NumberedValue]],
        members: set[int],
        shared: list[NumberedValue],
        held: int,
    ) -> list[ir.Node]:
        """The statements within the shared values. A Local or Delocal whose partner lies outside stays outside."""
        born = {node.var for node in nodes if isinstance(node, ir.Local)}
        died = {node.var for node in nodes if isinstance(node, ir.Delocal)}
        before: list[ir.Node] = []
        inside: list[ir.Node] = []
        behind: list[ir.Node] = []
        names: set[str | None] = set()
        for k, node in enumerate(nodes):
            if k in members and isinstance(node, ir.Within):
                inside.extend(self.without(node, computed[k], shared))
                names.add(node.name)
            elif isinstance(node, ir.Local) and node.var not in died:
                before.append(node)
            elif isinstance(node, ir.Delocal) and node.var not in born:
                behind.append(node)
            else:
                inside.append(node)
        compute = tuple(node for value in shared for node in value.statements)
        room = held + sum(len(value.locals) for value in shared)
        whole = ir.Within(compute, self.group(inside, room), _common_name(names), nodes[0].span)
        return [*before, whole, *behind]

    def without(self, node: ir.Within, values: Iterable[NumberedValue], shared: Iterable[NumberedValue]) -> ir.Block:
        """The statement without the shared values."""
        available = {value.number: value for value in shared}
        names: dict[ir.Var, ir.Var] = {}
        rest: list[ir.Node] = []
        for value in values:
            found = available.get(value.number)
            if found is None:
                rest.extend(value.statements)
            elif found is not value:
                names.update(zip(value.locals, found.locals, strict=True))
        body = node.body
        if names:
            renaming = Renaming(names)
            rest, body = list(renaming.block(tuple(rest))), renaming.block(body)
        return (node._replace(compute=tuple(rest), body=body),) if rest else body

    # ------------------------------------------------------------------ out of loops

    def leave_loop(self, loop: ir.For | ir.While, held: int) -> ir.Block:
        """The loop within the values that are loop-invariant."""
        if not self.hoist or held >= self.max_live or not any(isinstance(node, ir.Within) for node in loop.body):
            return (loop,)
        # Variables that live in one pass only are included: a value that reads them differs between passes.
        inside = union(self.accesses.of(node) for node in loop.body)
        if isinstance(loop, ir.For):
            inside = inside._replace(writes=inside.writes | {loop.var})
        if inside.barrier:
            return (loop,)
        certain = isinstance(loop, ir.For) and loop.some
        chosen: dict[int, NumberedValue] = {}
        room = self.max_live - held
        compute: list[ir.Node] = []
        names: set[str | None] = set()
        promised = False
        for node in loop.body:
            if isinstance(node, ir.Within):
                # Values of an earlier statement may stand for those of this one, which its other values read.
                renamed: dict[ir.Var, ir.Var] = {}
                for value in self.computed(node):
                    found = chosen.get(value.number)
                    if found is not None:
                        renamed.update(zip(value.locals, found.locals, strict=True))
                    elif self._invariant(value, inside, chosen, certain and not promised):
                        room -= len(value.locals)
                        if room < 0:
                            break
                        chosen[value.number] = value
                        compute.extend(Renaming(renamed).block(value.statements))
                        names.add(node.name)
            promised |= self.accesses.of(node).promises
        if not any(value.weight for value in chosen.values()):
            return (loop,)
        shared = list(chosen.values())
        body: list[ir.Node] = []
        for node in loop.body:
            values = self.computed(node)
            body.extend(self.without(node, values, shared) if isinstance(node, ir.Within) and values else [node])
        return (ir.Within(tuple(compute), (loop._replace(body=tuple(body)),), _common_name(names), loop.span),)

    def _invariant(
        self, value: NumberedValue, inside: AccessSets, chosen: dict[int, NumberedValue], may_trap: bool
    ) -> bool:
        """Whether the value is loop-invariant, and may be computed even if the loop makes no pass."""
        return (
            not value.opaque
            and not value.access.stack
            and value.needs <= chosen.keys()
            and value.weight > 0
            and not inside.clobbers(value.access)
            and (may_trap or self.numbering.safe(value))
        )


def _tests_for_zero(node: ir.Node) -> bool:
    return (isinstance(node, ir.Check) and node.code == "RG0802") or (isinstance(node, ir.Local) and node.checked)


def _next_with_equal_value(computed: Sequence[list[NumberedValue]]) -> list[int]:
    """For each statement the place of the next statement that computes one of its values, far away if there is none."""
    nowhere = len(computed) + (1 << 30)
    last: dict[int, int] = {}
    out = [nowhere] * len(computed)
    for i in range(len(computed) - 1, -1, -1):
        for value in computed[i]:
            if value.weight:
                out[i] = min(out[i], last.get(value.number, nowhere))
        for value in computed[i]:
            last[value.number] = i
    return out


def _closed(values: Iterable[NumberedValue], numbers: set[int]) -> set[int]:
    """The numbers whose needs are all among the numbers, too."""
    kept: set[int] = set()
    for value in values:
        if value.number in numbers and value.needs <= kept:
            kept.add(value.number)
    return kept


def _common_name(names: Iterable[str | None]) -> str | None:
    """The name of the routine of the statements; of several routines, the alphabetically first."""
    return min((name for name in names if name is not None), default=None)
