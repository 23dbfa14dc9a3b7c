"""Alpha-renaming: every local variable gets one `Local`, or one `For`, in the whole program.

    Local t … Delocal t; Local t … Delocal t  →  Local t … Delocal t; Local t′ … Delocal t′

A routine that is replayed appears more than once with the same variables. Later passes look up where a variable is
written, and need one answer. Correct because a name means nothing beyond the life of the variable.
Traps and cost: unchanged.
"""

from __future__ import annotations

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.traversal import map_bodies, map_operands, walk


def rename_locals(module: ir.Module) -> ir.Module:
    """The module with each local variable born in one place."""
    seen: set[ir.Var] = set()

    def rewrite(block: ir.Block) -> ir.Block:
        born = [node.var for node in walk(block) if isinstance(node, ir.Local | ir.For)]
        if len(set(born)) < len(born) or not seen.isdisjoint(born):
            return _renamed(block, {}, seen)
        seen.update(born)
        return block

    return map_bodies(module, rewrite)


def _renamed(block: ir.Block, names: dict[ir.Var, ir.Var], seen: set[ir.Var]) -> ir.Block:
    """The block renamed by `names`, to which the variables born at its top are added."""

    def operand(x: ir.Operand) -> ir.Operand:
        return names.get(x, x) if isinstance(x, ir.Var) else x

    out: list[ir.Node] = []
    for node in block:
        if isinstance(node, ir.Local | ir.For):
            var = node.var
            names[var] = ir.Var(var.name, var.kind, var.span) if var in seen else var
            seen.add(var)
        new, scope = map_operands(node, operand), dict(names)
        # Locals of a compute block live on in the body of its Within.
        inside = [_renamed(b, scope if isinstance(node, ir.Within) else dict(names), seen) for b in ir.children(node)]
        out.append(ir.with_children(new, inside))
    return tuple(out)
