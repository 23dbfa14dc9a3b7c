"""cancel_inverse_pairs: a statement and its inverse vanish, also across statements that change places with one of them.

    s; x; s⁻¹  →  x    where s; x = x; s

Updates of one target by sums, whatever they add, change places; so do those by exclusive or, and those of lognums.
Traps become rarer, as s is not tested any more. What is there for its trap stays: promises (`Check`, a checked
Local or Delocal) and statements that change nothing (`assertz`).
Traps to avoid: a checked sum does not change places with one that wraps, whose partial sums may lie anywhere. Of checked sums
one may stand between: its result is a partial sum of the program as it was. With two of them, y += s; y += u; y += v; y −= s → y += u; y += v, the first
would be one that was never formed, and may overflow.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from retrograd.compiler.ir.effects import AccessAnalysis, facts
from retrograd.compiler.ir.rewriting import Numbering, map_blocks, map_bodies
from retrograd.compiler.ir.statements import (
    Block,
    Call,
    Check,
    Delocal,
    External,
    For,
    If,
    Local,
    Module,
    Node,
    Op,
    While,
    Within,
    invert_node,
)
from retrograd.isa.table import TABLE

_FAMILIES = ({"add", "sub"}, {"xor"}, {"mul", "div"})


def cancel_inverse_pairs(module: Module, *, window: int = 8) -> Module:
    """Remove pairs with at most `window` statements between."""
    accesses = AccessAnalysis(module)
    return map_bodies(module, lambda body: map_blocks(body, lambda block: _cancel(block, accesses, window)))


def _cancel(block: Block, accesses: AccessAnalysis, window: int) -> Block:
    if len(block) < 2:
        return block
    out: list[Node | None] = []
    # Statements by their looks, which they have in common with their inverses: the places of those still there.
    places: dict[Hashable, list[int]] = {}
    for node in block:
        if isinstance(node, Check | External) or (isinstance(node, Local | Delocal) and node.checked):
            out.append(node)
            continue
        alike = places.setdefault(_looks(node), [])
        if alike and _undone_by(out, alike[-1], node, accesses, window):
            out[alike.pop()] = None
            while out and out[-1] is None:
                out.pop()
            continue
        alike.append(len(out))
        out.append(node)
    left = tuple(node for node in out if node is not None)
    return left if len(left) < len(block) else block


def _looks(node: Node) -> Hashable:
    """Equal for a statement and its inverse; a cheap test before the exact one."""
    match node:
        case Op(opcode, d, a, b, imm):
            return min(opcode.code, TABLE.inverse(opcode).code), d, a, b, imm
        case Local(var) | Delocal(var):
            return var
        case Within(compute, body):
            ends = frozenset(x.d for x in (*body[:1], *body[-1:]) if isinstance(x, Op))
            return len(compute), len(body), ends
        case If(_, then, orelse):
            return "if", len(then), len(orelse)
        case While(_, body):
            return "while", len(body)
        case For(_, start, stop, step, body):
            return start, stop, step, len(body)
        case Call(procedure, args):
            return procedure, args
        case Check() | External():
            return None


def _undone_by(out: Sequence[Node | None], place: int, node: Node, accesses: AccessAnalysis, window: int) -> bool:
    """Whether the statement undoes the one at that place, and could stand right behind it."""
    first = out[place]
    if first is None or len(out) - place > 2 * window or type(first) is not type(node):
        return False
    between = [x for x in out[place + 1 :] if x is not None]
    if len(between) > window or not all(_change_places(x, node, accesses) for x in between):
        return False
    if sum(_checked_sum(x) for x in between if not accesses.of(x).commutes(accesses.of(node))) > 1:
        return False
    access = accesses.of(first)
    if access.promises or access.barrier:
        return False
    return Numbering().node(invert_node(first)) == Numbering().node(node)


def _checked_sum(node: Node) -> bool:
    function = facts(node.opcode).function if isinstance(node, Op) else None
    return function is not None and function.checked


def _change_places(x: Node, y: Node, accesses: AccessAnalysis) -> bool:
    """Whether x; y = y; x."""
    if accesses.of(x).commutes(accesses.of(y)):
        return True
    if not isinstance(x, Op) or not isinstance(y, Op):
        return False
    f, g = facts(x.opcode), facts(y.opcode)
    if f.function is None or g.function is None:
        return False
    same_target = (f.updates and g.updates and x.d is y.d) or (f.stores and g.stores)
    same_test = f.function.checked == g.function.checked
    return same_target and same_test and any(x.opcode.update in k and y.opcode.update in k for k in _FAMILIES)
