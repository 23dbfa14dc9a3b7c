"""Marks where the release of a local begins, for the messages of traps.

    t = e; A; free t      →   local t; t += e; mark t;  A;  mark t; t −= e; delocal t
    within C: A           →   within C: (mark t; A; mark t)          for each local t of the routine C

At a mark the local holds the value that the source gives it. Where the release traps, it has been undone already.
A mark is an External: its location is noted, and it changes nothing, so traps and results are unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis
from retrograd.compiler.ir.traversal import map_bodies, map_children, rebuilt, walk
from retrograd.isa.diagnostics import Span

#: the number of the External that is a mark
MARK = -1


def mark_releases(module: ir.Module) -> ir.Module:
    """The module, with a mark at each end of the life of every local whose release is tested."""
    return map_bodies(module, _marked)


def mark_of(node: ir.Node) -> ir.External:
    """The mark that belongs to a tested statement: of its variable, or of its place for the test of an array."""
    if isinstance(node, ir.Local | ir.Delocal):
        return ir.External(MARK, None, (node.var,))
    return ir.External(MARK, node.span)


def changed_operands(module: ir.Module, node: ir.Local | ir.Delocal) -> list[tuple[str, Span | None]]:
    """(name, place of a change) of the places that the routine of a local reads and its use changes."""
    accesses, out = AccessAnalysis(module), dict[str, Span | None]()
    for body in (module.entry, *(p.body for p in module.procedures.values())):
        for within in walk(body):
            if not isinstance(within, ir.Within) or not any(
                isinstance(n, ir.Local) and n.var is node.var for n in within.compute
            ):
                continue
            computed = [accesses.of(n) for n in within.compute]
            own = {n.var for n in within.compute if isinstance(n, ir.Local)}
            read = {x for a in computed for x in (*a.reads, *a.loads)} - own
            for inner in walk(within.body):
                if ir.children(inner):
                    continue
                access = accesses.of(inner)
                for x in (*access.writes, *access.stores):
                    if x in read and x is not None:
                        out[x.name] = inner.span
    return list(out.items())


def _marked(block: ir.Block, released: Collection[ir.External] = ()) -> ir.Block:
    """The block with its marks. `released`: the marks of locals that the block makes, and a routine around it releases."""
    before: dict[int, list[ir.External]] = {}
    behind: dict[int, list[ir.External]] = {}
    nodes = [_inside(node) for node in block]
    for i, node in enumerate(block):
        if isinstance(node, ir.Local) and node.checked and mark_of(node) not in released:
            last = _run(block, i, 1, {node.span})
            end = _end_of_life(block, i, last, 1)
            behind.setdefault(last if end is None else (i + end - 1) // 2, []).append(mark_of(node))
        elif isinstance(node, ir.Delocal) and node.checked:
            first = _run(block, i, -1, {node.span})
            begin = _end_of_life(block, i, first, -1)
            before.setdefault(first if begin is None else (begin + i + 1) // 2, []).append(mark_of(node))
        for test in _zero_tests(node):
            if mark_of(test) in released:
                continue
            assert isinstance(test.test.a, ir.Var)
            places = {test.span, test.test.a.span}
            before.setdefault(_run(block, i, -1, places), []).append(mark_of(test))
            behind.setdefault(_run(block, i, 1, places), []).append(mark_of(test))
    if not before and not behind:
        return rebuilt(block, nodes)
    out: list[ir.Node] = []
    for i, node in enumerate(nodes):
        out += (*before.get(i, ()), node, *behind.get(i, ()))
    return tuple(out)


def _inside(node: ir.Node) -> ir.Node:
    if any(_zero_tests(node)):
        return node
    if not isinstance(node, ir.Within) or node.name is None:
        return map_children(node, _marked)
    marks: dict[ir.External, int] = {}
    for n in node.compute:
        tested = (n,) if isinstance(n, ir.Local | ir.Delocal) and n.checked else _zero_tests(n)
        for mark in map(mark_of, tested):
            marks[mark] = marks.get(mark, 0) + 1
    # Other locals are released within the routine.
    left = [mark for mark, ends in marks.items() if ends == 1]
    return node._replace(compute=_marked(node.compute, left), body=(*left, *_marked(node.body), *left))


def _zero_tests(node: ir.Node) -> Iterator[ir.Check]:
    """The test that an array is zero, if the statement is one. Other checks of this code are those of a pop."""
    if isinstance(node, ir.Within | ir.For | ir.If):
        for inner in walk((node,)):
            if isinstance(inner, ir.Check) and inner.freed is not None:
                if node.span == inner.span:
                    yield inner
                return


def _run(block: ir.Block, start: int, step: int, places: set[Span | None]) -> int:
    """The last index, from `start` on in this direction, of statements that stand at these places.

    It does not reach into the pop of `t = rg.pop(s)`, which stands at the place of t, and is no part of its making or
    release.
    """
    at = start
    while 0 <= at + step < len(block) and not any(map(_tests_pop, walk((block[at + step],)))):
        inner = (n.span for n in walk((block[at + step],)) if n.span is not None)
        found = next(inner, None)
        if found is None or not any(_overlap(p, found) for p in places):
            break
        at += step
    return at


def _end_of_life(block: ir.Block, i: int, last: int, step: int) -> int | None:
    """Where the life of a local that begins or ends at index i has its other end; None where that lies beyond the index `last`.

    Such a local is made and released at one place in the source, `constant int t = e` without a use. Its release is its
    making, inverted, so the local holds its value in the middle.
    """
    node, other = block[i], ir.Delocal if step > 0 else ir.Local
    assert isinstance(node, ir.Local | ir.Delocal)
    for k in range(i + step, last + step, step):
        end = block[k]
        if isinstance(end, other) and end.var is node.var:
            return k
    return None


def _tests_pop(node: ir.Node) -> bool:
    """Whether this is a test of a push or a pop: there is room, there is a value, or its variable is zero."""
    if not isinstance(node, ir.Check):
        return False
    return node.code == "RG0806" or (node.code == "RG0802" and node.freed is None)


def _overlap(a: Span | None, b: Span) -> bool:
    return a is not None and a[:2] == b[:2] and a.column < b.end and b.column < a.end
