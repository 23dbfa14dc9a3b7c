"""Alpha-renaming: every local variable gets one `Local`, or one `For`, in the whole program.

    Local t … Delocal t; Local t … Delocal t  →  Local t … Delocal t; Local t′ … Delocal t′

A routine that is replayed appears more than once with the same variables. Later passes look up where a variable is
written, and need one answer. Correct because a name means nothing beyond the life of the variable.
Traps and cost: unchanged.
"""

from __future__ import annotations

from retrograd.compiler.ir.statements import (
    Block,
    For,
    Local,
    Module,
    Node,
    Operand,
    Var,
    Within,
    children,
    with_children,
)
from retrograd.compiler.ir.traversal import map_bodies, map_operands, walk


def rename_locals(module: Module) -> Module:
    """The module with each local variable born in one place."""
    seen: set[Var] = set()

    def rewrite(block: Block) -> Block:
        born = [node.var for node in walk(block) if isinstance(node, Local | For)]
        if len(set(born)) < len(born) or not seen.isdisjoint(born):
            return _renamed(block, {}, seen)
        seen.update(born)
        return block

    return map_bodies(module, rewrite)


def _renamed(block: Block, names: dict[Var, Var], seen: set[Var]) -> Block:
    """The block renamed by `names`, to which the variables born at its top are added."""

    def operand(x: Operand) -> Operand:
        return names.get(x, x) if isinstance(x, Var) else x

    out: list[Node] = []
    for node in block:
        if isinstance(node, Local | For):
            var = node.var
            names[var] = Var(var.name, var.kind, var.span) if var in seen else var
            seen.add(var)
        new, scope = map_operands(node, operand), dict(names)
        # Locals of a compute block live on in the body of its Within.
        inside = [_renamed(b, scope if isinstance(node, Within) else dict(names), seen) for b in children(node)]
        out.append(with_children(new, inside))
    return tuple(out)
