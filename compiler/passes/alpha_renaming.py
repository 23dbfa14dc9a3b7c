"""rename_locals: every variable that lives in a block gets its one Local, or its one For.

    Local t … Delocal t; Local t … Delocal t  →  Local t … Delocal t; Local t′ … Delocal t′

A routine that is replayed appears more than once with the same variables; passes that ask where a variable is
written want one answer. Meaning, cost and traps are unchanged.
"""

from __future__ import annotations

from retrograd.compiler.ir.effects import walk
from retrograd.compiler.ir.rewriting import Renaming, map_bodies
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
    Var,
    While,
    Within,
    with_children,
)


def rename_locals(module: Module) -> Module:
    """The module with each of its local variables born in one place."""
    seen: set[Var] = set()

    def rewrite(block: Block) -> Block:
        born = [node.var for node in walk(block) if isinstance(node, Local | For)]
        clash = len(set(born)) < len(born) or not seen.isdisjoint(born)
        if clash:
            return _apart(block, {}, seen)
        seen.update(born)
        return block

    return map_bodies(module, rewrite)


def _apart(block: Block, names: dict[Var, Var], seen: set[Var]) -> Block:
    """The block renamed by `names`, to which the variables that it gives birth to are added."""

    def born(var: Var) -> Var:
        names[var] = Var(var.name, var.kind, var.span) if var in seen else var
        seen.add(var)
        return names[var]

    out: list[Node] = []
    for node in block:
        match node:
            case Local(var):
                out.append(node._replace(var=born(var)))
            case Delocal(var):
                out.append(node._replace(var=names.get(var, var)))
            case Within(compute, body):
                inside = dict(names)
                compute = _apart(compute, inside, seen)
                out.append(node._replace(compute=compute, body=_apart(body, inside, seen)))
            case For(var):
                var = born(var)
                loop = _rename(node._replace(body=()), names)
                out.append(with_children(loop, (_apart(node.body, dict(names), seen),)))
            case If(_, then, orelse):
                branches = [_apart(branch, dict(names), seen) for branch in (then, orelse)]
                out.append(with_children(_rename(node._replace(then=(), orelse=()), names), branches))
            case While(_, body):
                out.append(with_children(_rename(node._replace(body=()), names), (_apart(body, dict(names), seen),)))
            case Op() | Call() | Check() | External():
                out.append(_rename(node, names))
    return tuple(out)


def _rename(node: Node, names: dict[Var, Var]) -> Node:
    return Renaming(names).block((node,))[0]
