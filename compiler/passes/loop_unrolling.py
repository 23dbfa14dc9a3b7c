"""Loop unrolling: a loop of few passes with known bounds is replaced by its passes.

    for i = 0 … 2: b   →   b[i := 0]; b[i := 1]          backward: the last pass first

Condition: no instruction names i in a place where only a register can stand. Each pass gets locals of its own.
Traps: unchanged. Cost: code grows up to `most` instructions for each loop.
"""

from __future__ import annotations

from retrograd.compiler.ir.alpha_equivalence import Renaming
from retrograd.compiler.ir.cost_model import code_size, length, trip_values
from retrograd.compiler.ir.statements import Block, Const, For, Module, Node, Op
from retrograd.compiler.ir.traversal import map_blocks, map_bodies, walk
from retrograd.isa.words import Format


def unroll_loops(module: Module, *, most_passes: int = 8, most: int = 160) -> Module:
    """Unroll loops of at most `most_passes` that come to at most `most` instructions in all, inner ones first."""
    w = module.format

    def rewrite(block: Block) -> Block:
        if not any(isinstance(node, For) for node in block):
            return block
        out: list[Node] = []
        for node in block:
            values = _few(node, w, most_passes, most) if isinstance(node, For) else None
            if isinstance(node, For) and values is not None:
                for value in values:
                    out.extend(Renaming({node.var: Const(value & w.mask)}, fresh=True).block(node.body))
            else:
                out.append(node)
        return tuple(out)

    return map_bodies(module, lambda body: map_blocks(body, rewrite))


def _few(loop: For, w: Format, most_passes: int, most: int) -> range | None:
    """The values of the variable if they are known and few."""
    values = trip_values(loop, w)
    if values is None or length(values) > most_passes or length(values) * code_size(loop.body) > most:
        return None
    # Where an instruction names a register that it does not write, no constant can stand.
    named = any(isinstance(node, Op) and node.d is loop.var for node in walk(loop.body))
    return None if named else values
