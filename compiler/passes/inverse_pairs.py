"""Cancellation of inverse pairs: a statement and its inverse vanish, also across statements that commute with one of them.

    s; x; s⁻¹  →  x        if s; x = x; s

Statements commute if neither reads or writes a variable that the other writes. Updates of one target commute as well if both add or
subtract, both are exclusive or, or both multiply or divide lognums, for any operands.
Correct because s; s⁻¹ is the identity.
Traps: the test of s disappears, none is added. Statements that are there for their trap stay: a `Check`, a checked
`Local` or `Delocal`, `assertz`. A checked sum does not commute with a sum that wraps, since partial sums of the latter
may lie anywhere. At most one checked sum of the same target may stand between: its result is a partial sum of the original
program. With two, y += s; y += u; y += v; y −= s  →  y += u; y += v would form the new partial sum y + u, which may overflow.
Cost: none; `window` bounds the search.
Between s and s⁻¹ the variables that s writes keep the value before s. The module records their names and the lines of x, for debuggers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis
from retrograd.compiler.ir.instruction_selection import facts
from retrograd.compiler.ir.traversal import map_blocks, map_bodies, walk
from retrograd.compiler.ir.value_numbering import StructuralKeys
from retrograd.isa.table import TABLE

_FAMILIES = ({"add", "sub"}, {"xor"}, {"mul", "div"})


def cancel_inverse_pairs(module: ir.Module, *, window: int = 8) -> ir.Module:
    """Remove pairs with at most `window` statements between."""
    accesses = AccessAnalysis(module)
    lines = defaultdict[str, set[tuple[str, int]]](set)
    module = map_bodies(module, lambda body: map_blocks(body, lambda block: _cancel(block, accesses, window, lines)))
    return module.with_unsettled(lines)


def _cancel(
    block: ir.Block, accesses: AccessAnalysis, window: int, lines: defaultdict[str, set[tuple[str, int]]]
) -> ir.Block:
    if len(block) < 2:
        return block
    out: list[ir.Node | None] = []
    # fingerprint -> the places of the statements that are still there
    places: dict[Hashable, list[int]] = {}
    for node in block:
        if isinstance(node, ir.Check | ir.External) or (isinstance(node, ir.Local | ir.Delocal) and node.checked):
            out.append(node)
            continue
        alike = places.setdefault(_fingerprint(node), [])
        if alike and _undone_by(out, alike[-1], node, accesses, window):
            first = alike.pop()
            names = list(accesses.of(node).names())
            between = _lines([node, *(x for x in out[first:] if x is not None)]) if names else ()
            if len(between) > 1:
                for name in names:
                    lines[name].update(*between)
            out[first] = None
            while out and out[-1] is None:
                out.pop()
            continue
        alike.append(len(out))
        out.append(node)
    left = tuple(node for node in out if node is not None)
    return left if len(left) < len(block) else block


def nest_inverse_pairs(module: ir.Module) -> ir.Module:
    """A statement with a loop, and its inverse later in the same block, as one `Within`: the program is the same.

        s; x; s⁻¹  →  within s do x        if x ends the locals that it begins, and no others

    The release of an array is the inverse of the statement that filled it. Other passes, derivatives and engines look at `Within`
    only to see that words are what they were: they skip the uncompute block, and need no sweep forward for a gradient.
    """
    accesses = AccessAnalysis(module)
    return map_bodies(module, lambda body: map_blocks(body, lambda block: _nested(block, accesses)))


def _nested(block: ir.Block, accesses: AccessAnalysis) -> ir.Block:
    places: dict[Hashable, list[int]] = {}
    for at, node in enumerate(block):
        if (outline := _outline(node)) is not None:
            places.setdefault(outline, []).append(at)
    if all(len(alike) == 1 for alike in places.values()):
        return block
    out: list[ir.Node] = []
    at = 0
    while at < len(block):
        node = block[at]
        alike = places.get(_outline(node), ())
        last = next((k for k in reversed(alike) if k > at + 1 and _encloses(block, at, k, accesses)), None)
        if last is None:
            out.append(node)
        else:
            out.append(ir.Within((node,), _nested(block[at + 1 : last], accesses), None, node.span))
        at = (at if last is None else last) + 1
    return tuple(out)


def _outline(node: ir.Node) -> Hashable:
    """Equal for a statement with a loop and for its inverse; None of other statements."""
    if not any(isinstance(x, ir.For | ir.While) for x in walk((node,))):
        return None
    return ("within", len(node.compute), len(node.body)) if isinstance(node, ir.Within) else _fingerprint(node)


def _encloses(block: ir.Block, at: int, last: int, accesses: AccessAnalysis) -> bool:
    """Whether two statements are inverse to each other, and those between begin and end locals of their own."""
    begun: set[ir.Var] = set()
    for node in block[at + 1 : last]:
        if isinstance(node, ir.Local):
            begun.add(node.var)
        elif isinstance(node, ir.Delocal):
            if node.var not in begun:
                return False
            begun.remove(node.var)
    access = accesses.of(block[at])
    if begun or access.promises or access.barrier or not isinstance(block[last], type(block[at])):
        return False
    return StructuralKeys().node(ir.invert_node(block[at])) == StructuralKeys().node(block[last])


def _lines(nodes: Iterable[ir.Node]) -> set[tuple[tuple[str, int], ...]]:
    """The lines of statements and of those inside them, each with the lines of its calls."""
    return {tuple(node.span.lines()) for node in walk(nodes) if node.span is not None}


def _fingerprint(node: ir.Node) -> Hashable:
    """Equal for a statement and its inverse; a cheap test before the exact one."""
    match node:
        case ir.Op(opcode, d, a, b, imm):
            return min(opcode.code, TABLE.inverse(opcode).code), d, a, b, imm
        case ir.Local(var) | ir.Delocal(var):
            return var
        case ir.Within(compute, body):
            ends = frozenset(x.d for x in (*body[:1], *body[-1:]) if isinstance(x, ir.Op))
            return len(compute), len(body), ends
        case ir.If(_, then, orelse):
            return "if", len(then), len(orelse)
        case ir.While(_, body):
            return "while", len(body)
        case ir.For(_, start, stop, step, body):
            return start, stop, step, len(body)
        case ir.Call(procedure, args):
            return procedure, args
        case ir.Check() | ir.External():
            return None


def _undone_by(out: Sequence[ir.Node | None], place: int, node: ir.Node, accesses: AccessAnalysis, window: int) -> bool:
    """Whether the statement is the inverse of that at the place, and can move right behind it."""
    first = out[place]
    if first is None or len(out) - place > 2 * window or type(first) is not type(node):
        return False
    between = [x for x in out[place + 1 :] if x is not None]
    if len(between) > window or not all(_commute(x, node, accesses) for x in between):
        return False
    if sum(_checked_sum(x) for x in between if not accesses.of(x).commutes(accesses.of(node))) > 1:
        return False
    access = accesses.of(first)
    if access.promises or access.barrier:
        return False
    return StructuralKeys().node(ir.invert_node(first)) == StructuralKeys().node(node)


def _checked_sum(node: ir.Node) -> bool:
    return isinstance(node, ir.Op) and facts(node.opcode).checked


def _commute(x: ir.Node, y: ir.Node, accesses: AccessAnalysis) -> bool:
    """Whether x; y = y; x."""
    if accesses.of(x).commutes(accesses.of(y)):
        return True
    if not isinstance(x, ir.Op) or not isinstance(y, ir.Op):
        return False
    f, g = facts(x.opcode), facts(y.opcode)
    if f.function is None or g.function is None:
        return False
    same_target = (f.updates and g.updates and x.d is y.d) or (f.stores and g.stores)
    return (
        same_target and f.checked == g.checked and any(x.opcode.update in k and y.opcode.update in k for k in _FAMILIES)
    )
