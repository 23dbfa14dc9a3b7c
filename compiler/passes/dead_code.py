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

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis
from retrograd.compiler.ir.instruction_selection import constant_value, facts, is_rounded
from retrograd.compiler.ir.traversal import map_blocks, map_bodies, operands_of, rebuilt, walk


def eliminate_dead_code(module: ir.Module) -> ir.Module:
    """Drop dead locals, and the structures that are left empty."""
    accesses = AccessAnalysis(module)

    def rewrite(body: ir.Block) -> ir.Block:
        dead = _dead_locals(body)
        return map_blocks(body, lambda block: _drop(block, dead, module, accesses))

    return map_bodies(module, rewrite)


def _dead_locals(body: ir.Block) -> frozenset[ir.Var]:
    """The locals that no promise, test, bound, call or memory depends on, directly or through other locals."""
    born: set[ir.Var] = set()
    needed: list[ir.Operand | None] = []
    sources: dict[ir.Var, list[ir.Operand | None]] = {}
    for node in walk(body):
        match node:
            case ir.Op(opcode, d, a, b) if (
                facts(opcode).written == ("d",) and isinstance(d, ir.Var) and not facts(opcode).stores
            ):
                sources.setdefault(d, []).extend((a, b))
            case ir.Local(var, checked) | ir.Delocal(var, checked):
                born.add(var)
                if checked:
                    needed.append(var)
            case ir.Op() | ir.Within() | ir.If() | ir.While() | ir.For() | ir.Call() | ir.Check() | ir.External():
                needed.extend(operands_of(node))
    for var, operands in sources.items():
        if var not in born:
            needed.extend(operands)
    alive: set[ir.Var] = set()
    while needed:
        x = needed.pop()
        if isinstance(x, ir.Var) and x not in alive:
            alive.add(x)
            if x in born:
                needed.extend(sources.get(x, ()))
    return frozenset(born - alive)


def _drop(block: ir.Block, dead: frozenset[ir.Var], module: ir.Module, accesses: AccessAnalysis) -> ir.Block:
    out: list[ir.Node] = []
    for node in block:
        match node:
            case ir.Op(opcode, d):
                written = facts(opcode).written
                kept = (module.recorded and is_rounded(opcode)) or constant_value(node, module.format) != 0
                if not (written == ("d",) and d in dead) and kept:
                    out.append(node)
            case ir.Local(var) | ir.Delocal(var):
                if var not in dead:
                    out.append(node)
            case ir.Within(compute, body):
                if not compute:
                    out.extend(body)
                elif body or _promises(compute, accesses):
                    out.append(node)
            case ir.If(test, then, orelse, post):
                if then or orelse or test != post:
                    out.append(node)
            case ir.For(body=body):
                if body:
                    out.append(node)
            case ir.While() | ir.Call() | ir.Check() | ir.External():
                out.append(node)
    return rebuilt(block, out)


def _promises(block: Iterable[ir.Node], accesses: AccessAnalysis) -> bool:
    return any(f.promises or f.barrier for f in map(accesses.of, block))
