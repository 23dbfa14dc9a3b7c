"""extend_live_ranges: what a routine computes on its way is kept until the routine is undone, not computed again.

    Within((a, Within(c, d), e), b)             →  Within((a, c, d, e), b)
    Within((a, If(t, (Within(c, d),), f, t)), b) →  Within((a, locals of c, If(t, (c, d), f, t)), b)

Undoing (a, c; d; c⁻¹, e) runs c forward and backward once more: c four times, and 2ⁿ times what is n deep in others. Kept, it
runs twice. That may be where c changes nothing but its own locals, and b nothing that c reads, nor anything
by which (a, d, e) undone would change it: then c computes the same again. What is not so of c stays where it is.

A branch keeps nothing if b changes what its condition reads: undone, the other branch may be taken.

Traps become rarer, as c runs less often. Cotangents of what is kept meet before they are rounded.
Trap to avoid: this takes registers for steps (C. H. Bennett, Time/space trade-offs for reversible computation, SIAM J. Comput. 18, 1989);
`most_held` are kept by one Within.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from retrograd.compiler.ir.effects import Footprint, Footprints, walk
from retrograd.compiler.ir.interference import changed_between
from retrograd.compiler.ir.rewriting import map_bodies
from retrograd.compiler.ir.statements import (
    Block,
    Delocal,
    If,
    Local,
    Module,
    Node,
    Var,
    Within,
    children,
    with_children,
)
from retrograd.compiler.ir.value_numbering import Cell, Cells


def extend_live_ranges(module: Module, *, most_held: int = 64) -> Module:
    """Keep temporaries of Withins that other Withins compute; at most `most_held` variables in each."""
    keeper = _Keeper(module, most_held)
    return map_bodies(module, keeper.body)


class _Keeper:
    def __init__(self, module: Module, most_held: int) -> None:
        self.footprints = Footprints(module)
        self.cells = Cells(module, self.footprints)
        self.most_held = most_held
        #: how often each variable becomes live; only what does so once can live longer
        self.births: Counter[Var] = Counter()

    def body(self, body: Block) -> Block:
        self.births = Counter(node.var for node in walk(body) if isinstance(node, Local))
        return self.block(body)

    def block(self, block: Block) -> Block:
        """The block with every Within in it done, outer ones first: they save most."""
        out = [self.node(node) for node in block]
        return block if all(x is y for x, y in zip(out, block, strict=True)) else tuple(out)

    def node(self, node: Node) -> Node:
        if isinstance(node, Within) and any(isinstance(inner, Within | If) for inner in node.compute):
            keeping = _Keeping(self, changed_between(node, self.footprints))
            compute = keeping.block(node.compute)
            if keeping.room < self.most_held:
                node = node._replace(compute=compute)
        inside = children(node)
        new = [self.block(block) for block in inside]
        return node if all(x is y for x, y in zip(new, inside, strict=True)) else with_children(node, new)


class _Keeping:
    """One Within that keeps what is computed in it. `changed`: what is not the same any more when it is undone."""

    def __init__(self, keeper: _Keeper, changed: Footprint) -> None:
        self.keeper = keeper
        self.changed = changed
        self.room = keeper.most_held

    def block(self, block: Iterable[Node]) -> Block:
        """What the Within computes, with what it keeps in place."""
        out: list[Node] = []
        for node in block:
            born: list[Node] = []
            found = self.node(node, born)
            out += [*born, *found]
        return tuple(out)

    def node(self, node: Node, born: list[Node]) -> Block:
        """What stands in the statement's place; the locals that are kept go to `born`, as a branch cannot leave them."""
        match node:
            case Within(compute, body):
                cells = self.keeper.cells.of(compute)
                taken = self.taken(cells)
                if not any(cell.weight for cell in taken):
                    return (node,)
                statements = [s for cell in taken for s in cell.statements]
                born += [s for s in statements if isinstance(s, Local)]
                kept = self.nodes([s for s in statements if not isinstance(s, Local)], born)
                gone = {id(cell) for cell in taken}
                rest = tuple(s for cell in cells if id(cell) not in gone for s in cell.statements)
                # In what stays a Within, nothing can be kept beyond its end.
                return (*kept, node._replace(compute=rest)) if rest else (*kept, *self.nodes(body, born))
            case If(test, then, orelse, post):
                if not self.changed.writes.isdisjoint((test.a, test.b, post.a, post.b)):
                    # Undone, it may take the other branch, which does not free what this one keeps.
                    return (node,)
                return (node._replace(then=self.nodes(then, born), orelse=self.nodes(orelse, born)),)
        return (node,)

    def nodes(self, block: Iterable[Node], born: list[Node]) -> Block:
        return tuple([new for node in block for new in self.node(node, born)])

    def taken(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that can be kept, and for which there is room."""
        out: list[Cell] = []
        numbers: set[int] = set()
        for cell in cells:
            if cell.opaque or cell.footprint.stack or not cell.needs <= numbers or len(cell.locals) > self.room:
                continue
            whole = any(isinstance(statement, Delocal) for statement in cell.statements)
            once = all(self.keeper.births[var] == 1 for var in cell.locals)
            if once and not whole and not self.changed.disturbs(cell.footprint):
                self.room -= len(cell.locals)
                out.append(cell)
                numbers.add(cell.number)
        return out
