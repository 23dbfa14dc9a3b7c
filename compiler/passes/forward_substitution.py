"""Forward substitution: a temporary that only carries a sum to one update is replaced by updates of that target.

    Within((Local t, t += u₁, t −= u₂), (y += t,))  →  y += u₁, y −= u₂        and for y −= t with the signs exchanged
    Within((Local t, t += u), (y ⊕= t,))            →  y ⊕= u                  for any ⊕ for which y ⊕= u is an instruction
    Local t, t += u, …, y ⊕= t, erase t, Delocal t  →  …, y ⊕= u               `substitute_erased`, in gradient programs

Conditions: nothing else reads t; u₁ and u₂ do not read y; nothing before the update writes an operand of u₁ or u₂.
Lognums: the same with × and ÷. Correct because sums of words are a group; cotangents are equal because t's cotangent is y's.
Traps: y + u is tested in place of u. A temporary of several summands stays where sums are checked, unless y is a new
local, which is zero: the partial sums of y may overflow where neither t nor y + t does. Cost: none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import NO_VARS, AccessAnalysis
from retrograd.compiler.ir.instruction_selection import OPPOSITE, facts, with_update
from retrograd.compiler.ir.traversal import map_blocks, map_bodies, operands_of, splice, walk
from retrograd.isa.entries import Function

#: update by which a variable that is zero comes to hold the value itself
_SETTING = ("add", "xor", "mul")
_MOVES = ("mov", "fmov", "lmov")


def forward_substitute(module: ir.Module) -> ir.Module:
    """Update targets directly where a temporary would only carry the sum there."""
    accesses = AccessAnalysis(module)

    def rewrite(body: ir.Block) -> ir.Block:
        uses = count_uses(body)
        return map_blocks(body, lambda block: _rewrite(block, uses, accesses))

    return map_bodies(module, rewrite)


def count_uses(block: ir.Block) -> Counter[ir.Operand | None]:
    """How often each variable is named anywhere in the block."""
    uses: Counter[ir.Operand | None] = Counter()
    for node in walk(block):
        uses.update(operands_of(node))
    return uses


def _rewrite(block: ir.Block, uses: Counter[ir.Operand | None], accesses: AccessAnalysis) -> ir.Block:
    changed = False
    nodes: list[ir.Node] = []
    # Locals of the block that nothing has touched yet.
    zero: set[ir.Operand | None] = set()
    for node in block:
        if isinstance(node, ir.Within):
            new = _in_within(node, uses, accesses, zero)
            changed |= new is not node
            nodes.append(new)
        else:
            nodes.append(node)
        if isinstance(node, ir.Local):
            zero.add(node.var)
        elif zero:
            zero.difference_update(x for inner in walk((node,)) for x in operands_of(inner))
    return splice(nodes) if changed else block


def _in_within(
    within: ir.Within, uses: Counter[ir.Operand | None], accesses: AccessAnalysis, zero: Collection[ir.Operand | None]
) -> ir.Within:
    """`zero`: variables that are zero until the block first touches them."""
    body = list(within.body)
    # The updates of the body that only move a temporary, by the temporary.
    moves = {
        node.a: i
        for i, node in enumerate(body)
        if isinstance(node, ir.Op) and node.opcode.entry.name in _MOVES and isinstance(node.d, ir.Var)
    }
    candidates = [
        node.var for node in within.compute if isinstance(node, ir.Local) and not node.checked and node.var in moves
    ]
    compute = within.compute
    # Positions stay valid from the last to the first.
    for t in sorted(candidates, key=lambda t: -moves[t]):
        at = moves[t]
        summands = [node for node in compute if isinstance(node, ir.Op) and node.d is t]
        # Named by its Local, by its summands, by the one move, and by nothing else.
        if uses[t] != len(summands) + 2 or not summands:
            continue
        move = body[at]
        assert isinstance(move, ir.Op)
        untouched = move.d in zero and all(move.d not in operands_of(n) for n in walk((*compute, *body[:at])))
        updates = _redirect(t, summands, move, untouched)
        if updates is None or _interferes(updates, compute, summands, body[:at], accesses):
            continue
        # Blocks around this one are rewritten later, by the same counts.
        uses[updates[0].d] += len(updates) - 1
        body[at : at + 1] = updates
        gone = {id(node) for node in summands}
        compute = tuple(n for n in compute if id(n) not in gone and not (isinstance(n, ir.Local) and n.var is t))
    if compute is within.compute:
        return within
    return within._replace(compute=compute, body=tuple(body))


def _redirect(t: ir.Var, summands: list[ir.Op], move: ir.Op, zero: bool = False) -> list[ir.Op] | None:
    """The summands as updates of the move's target, or None where that would not be the same. `zero`: the target is."""
    if len(summands) > 1 and facts(move.opcode).checked and not (zero and move.opcode.update == "add"):
        return None
    wanted = move.opcode.update
    out: list[ir.Op] = []
    for i, summand in enumerate(summands):
        own = summand.opcode.update
        if own is None or wanted is None or not facts(summand.opcode).updates:
            return None
        if len(summands) == 1 and own in _SETTING and (own != "xor" or wanted == "xor" or not _differentiable(summand)):
            update = wanted
        elif own == "xor" or wanted == "xor" or (own in ("mul", "div")) != (wanted in ("mul", "div")):
            return None
        else:
            update = wanted if own in ("add", "mul") else OPPOSITE[wanted]
        opcode = with_update(summand.opcode, update)
        if opcode is not None and facts(move.opcode).checked and not facts(summand.opcode).checked:
            # Only the first sum of t, with zero, could do without a test.
            first_move = summand.opcode.entry.name == "mov" and i == 0 and own == "add"
            opcode = with_update(move.opcode, update) if first_move else None
        if opcode is None or (facts(summand.opcode).checked and not facts(move.opcode).checked):
            return None
        if move.d is summand.a or move.d is summand.b:
            return None
        out.append(summand._replace(opcode=opcode, d=move.d, span=move.span or summand.span))
    return out


def _differentiable(op: ir.Op) -> bool:
    return isinstance(op.opcode.entry, Function) and op.opcode.entry.differentiable


def _interferes(
    updates: Iterable[ir.Op],
    compute: ir.Block,
    summands: list[ir.Op],
    before: Iterable[ir.Node],
    accesses: AccessAnalysis,
) -> bool:
    """Whether a statement between a summand's old place and its new one writes an operand of it."""
    last = {id(node): position for position, node in enumerate(compute)}
    own = {id(node) for node in summands}
    for update, summand in zip(updates, summands, strict=True):
        needs = accesses.of(update)
        needs = needs._replace(writes=NO_VARS)
        behind = compute[last[id(summand)] + 1 :]
        for node in (*behind, *before):
            if id(node) not in own and accesses.of(node).clobbers(needs):
                return True
    return False


# ---------------------------------------------------------------- temporaries that are erased


def substitute_erased(module: ir.Module) -> ir.Module:
    """Update targets directly where a temporary would only carry one term there, and be erased."""
    accesses = AccessAnalysis(module)
    return map_bodies(module, lambda body: map_blocks(body, lambda block: _without_erased(block, accesses)))


def _without_erased(block: ir.Block, accesses: AccessAnalysis) -> ir.Block:
    places: dict[ir.Operand, list[int]] = {}
    for i, node in enumerate(block):
        inside = walk((node,)) if ir.children(node) else (node,)
        for x in {x for inner in inside for x in operands_of(inner) if isinstance(x, ir.Var)}:
            places.setdefault(x, []).append(i)
    nodes: list[ir.Node | None] = list(block)
    for t, at in places.items():
        if len(at) != 5:
            continue
        local, summand, move, erasure, end = (nodes[i] for i in at)
        if not isinstance(local, ir.Local) or not isinstance(end, ir.Delocal) or local.checked or end.checked:
            continue
        if not isinstance(summand, ir.Op) or not isinstance(move, ir.Op) or not isinstance(erasure, ir.Op):
            continue
        moves = move.opcode.entry.name in _MOVES and move.a is t and isinstance(move.d, ir.Var)
        if not moves or summand.d is not t or erasure.opcode.name != "erase" or facts(summand.opcode).memory:
            continue
        assert isinstance(t, ir.Var)
        updates = _redirect(t, [summand], move)
        between = [node for node in nodes[at[1] + 1 : at[2]] if node is not None]
        if updates is None or _interferes(updates, (summand,), [summand], between, accesses):
            continue
        nodes[at[2]] = updates[0]
        for i in (at[0], at[1], at[3], at[4]):
            nodes[i] = None
    return tuple(node for node in nodes if node is not None) if None in nodes else block
