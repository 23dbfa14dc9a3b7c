"""eliminate_dead_code: what nothing depends on is not computed.

    Local t; t += u; t −= v; … Delocal t   →  nothing           where only updates of locals as dead as t read t
    Within((), b)  →  b;   Within(c, ())   →  nothing           where c promises nothing
    If t: (), else: (), post t; For: ()    →  nothing
    x += 0                                 →  nothing

Traps become rarer: those of what is dropped. Promises (`Check`, a checked Local or Delocal) are never dropped,
and keep alive what they speak of.
"""

from __future__ import annotations

from collections.abc import Iterable

from retrograd.compiler.ir.effects import AccessAnalysis, facts, walk
from retrograd.compiler.ir.rewriting import constant_value, map_blocks, map_bodies
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
    Operand,
    Var,
    While,
    Within,
)


def eliminate_dead_code(module: Module) -> Module:
    """Drop dead locals, and the structures that are left empty."""
    accesses = AccessAnalysis(module)

    def rewrite(body: Block) -> Block:
        dead = _dead_locals(body)
        return map_blocks(body, lambda block: _drop(block, dead, module, accesses))

    return map_bodies(module, rewrite)


def _dead_locals(body: Block) -> frozenset[Var]:
    """The locals that nothing needs: not reached from what matters by way of what it is computed from."""
    born: set[Var] = set()
    needed: list[Operand | None] = []
    sources: dict[Var, list[Operand | None]] = {}
    for node in walk(body):
        match node:
            case Op(opcode, d, a, b):
                f = facts(opcode)
                if f.written == ("d",) and isinstance(d, Var) and not f.stores:
                    sources.setdefault(d, []).extend((a, b))
                else:
                    needed.extend((d, a, b))
            case Local(var, checked) | Delocal(var, checked):
                born.add(var)
                if checked:
                    needed.append(var)
            case If(test, _, _, post) | While(test, _, post):
                needed.extend((test.a, test.b, post.a, post.b))
            case For(_, start, stop):
                needed.extend((start, stop))
            case Call(_, args):
                needed.extend(args)
            case Check(test):
                needed.extend((test.a, test.b))
            case External(args=args):
                needed.extend(args)
            case Within():
                pass
    for var, operands in sources.items():
        if var not in born:
            needed.extend(operands)
    alive: set[Var] = set()
    while needed:
        x = needed.pop()
        if isinstance(x, Var) and x not in alive:
            alive.add(x)
            if x in born:
                needed.extend(sources.get(x, ()))
    return frozenset(born - alive)


def _drop(block: Block, dead: frozenset[Var], module: Module, accesses: AccessAnalysis) -> Block:
    out: list[Node] = []
    for node in block:
        match node:
            case Op(opcode, d):
                written = facts(opcode).written
                if not (written == ("d",) and d in dead) and constant_value(node, module.format) != 0:
                    out.append(node)
            case Local(var) | Delocal(var):
                if var not in dead:
                    out.append(node)
            case Within(compute, body):
                if not compute:
                    out.extend(body)
                elif body or _promises(compute, accesses):
                    out.append(node)
            case If(test, then, orelse, post):
                if then or orelse or test != post:
                    out.append(node)
            case For(body=body):
                if body:
                    out.append(node)
            case While() | Call() | Check() | External():
                out.append(node)
    return tuple(out) if len(out) != len(block) or any(x is not y for x, y in zip(out, block, strict=True)) else block


def _promises(block: Iterable[Node], accesses: AccessAnalysis) -> bool:
    return any(f.promises or f.barrier for f in map(accesses.of, block))
