"""Inline expansion of derivatives in compute blocks, without their uncomputation.

    D  =  within (C) do (B)          a derivative: C runs a function with shadows, B adds the shadows to results

    within (p; D; r) do (b)     →     within (p; C; B; r) do (b)

The inverse of the outer compute block undoes C, so C is executed twice in place of four times. Correct because C⁻¹ commutes with r and b:
C restores all words but shadows and kept cotangents, which lie in memory of their own. r and b must call no derivative of the same
level, which has its shadows there, and b must not change any word that C reads. A derivative whose C does not restore the words of its
function is expanded only if r and b neither read nor write words that the function writes, its results excepted, which C restores.
Traps: unchanged, except that a run which needs more than the memory for kept cotangents needs it as before.
Cost: shadows stay until the end of the outer block.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from retrograd.compiler.ir.alpha_equivalence import Renaming
from retrograd.compiler.ir.call_graph import calls
from retrograd.compiler.ir.effects import AccessAnalysis, AccessSets, clobbered_between
from retrograd.compiler.ir.statements import SP, Block, Call, Module, Within
from retrograd.compiler.ir.traversal import map_blocks, rebuilt


class Unrestored(NamedTuple):
    """The words that a function changes, without those of some of its parameters, by their positions."""

    function: str
    results: frozenset[int]


def expand_in_place(
    module: Module,
    derivatives: Mapping[str, Unrestored | None],
    level: Collection[str],
    reachable: Callable[[str], set[str]],
) -> Module:
    """The module with calls of these derivatives expanded where a compute block undoes them.

    `derivatives`: name -> the words that C does not restore. `level`: the procedures whose calls use the shadows. `reachable`: the procedures that a call of a procedure may run.
    """
    accesses = AccessAnalysis(module)

    def is_apart(block: Block) -> bool:
        names = {call.procedure for call in calls(block)}
        return not any(name in level or not reachable(name).isdisjoint(level) for name in names)

    def uses_unrestored(node: Call, others: Block) -> bool:
        """Whether other statements use a word that the compute block of a derivative leaves changed."""
        unrestored = derivatives[node.procedure]
        if unrestored is None:
            return False
        callee = module.procedures[unrestored.function]
        args, regions = node.args[: len(callee.params)], node.regions[: len(callee.regions)]
        changed = accesses.of(Call(callee.name, args, regions, False, node.span))
        restored = {SP, *(args[i] for i in unrestored.results)}
        own = AccessSets(writes=changed.writes.difference(restored), stores=changed.stores)
        return any(own.clobbers(accesses.of(other)) for other in others)

    def expanded(within: Within) -> Within:
        for i in reversed(range(len(within.compute))):
            node = within.compute[i]
            if not (isinstance(node, Call) and node.procedure in derivatives and not node.backward):
                continue
            body = module.procedures[node.procedure].body
            rest = within.compute[i + 1 :]
            clobbered = clobbered_between(within, accesses)
            others = (*rest, *within.body)
            if (
                body
                and is_apart(others)
                and not uses_unrestored(node, others)
                and not clobbered.clobbers(accesses.of(node))
            ):
                (whole,) = _renamed(module, node)
                assert isinstance(whole, Within)
                return within._replace(compute=(*within.compute[:i], *whole.compute, *whole.body, *rest))
            break
        return within

    def rewritten(block: Block) -> Block:
        return rebuilt(block, [expanded(node) if isinstance(node, Within) else node for node in block])

    procedures = {
        name: p if name in level else replace(p, body=map_blocks(p.body, rewritten))
        for name, p in module.procedures.items()
    }
    return replace(module, entry=map_blocks(module.entry, rewritten), procedures=procedures)


def _renamed(module: Module, call: Call) -> Block:
    """The body of the procedure, with the operands and regions of the call, and locals of its own."""
    callee = module.procedures[call.procedure]
    operands = dict(zip(callee.params, call.args, strict=True))
    regions = dict(zip(callee.regions, call.regions, strict=True))
    return Renaming(operands, regions, fresh=True).block(callee.body)
