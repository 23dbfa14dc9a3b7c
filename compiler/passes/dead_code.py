"""Dead-code elimination: computations that nothing depends on are removed.

    Local t; t += u; t −= v; … Delocal t   →  nothing           if only updates of dead locals read t
    Within((), b)  →  b;   Within(c, ())   →  nothing           if c promises nothing
    If t: (), else: (), post t; For: ()    →  nothing
    x += 0                                 →  nothing

A local is alive if a promise, a test, a bound, a call or memory depends on it, directly or through updates of other
locals. Correct because the value of any other local reaches nothing, and it is zero again where it is freed.
Traps: those of the removed statements disappear. A `Check`, a checked `Local` or `Delocal` is never removed, and its
operands are alive. Cost: none.
"""

from __future__ import annotations

from collections.abc import Iterable

from retrograd.compiler.ir.effects import AccessAnalysis
from retrograd.compiler.ir.opcode_facts import constant_value, facts
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
from retrograd.compiler.ir.traversal import map_blocks, map_bodies, operands_of, rebuilt, walk


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
            case Op(opcode, d, a, b) if (
                facts(opcode).written == ("d",) and isinstance(d, Var) and not facts(opcode).stores
            ):
                sources.setdefault(d, []).extend((a, b))
            case Local(var, checked) | Delocal(var, checked):
                born.add(var)
                if checked:
                    needed.append(var)
            case Op() | Within() | If() | While() | For() | Call() | Check() | External():
                needed.extend(operands_of(node))
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
    return rebuilt(block, out)


def _promises(block: Iterable[Node], accesses: AccessAnalysis) -> bool:
    return any(f.promises or f.barrier for f in map(accesses.of, block))
