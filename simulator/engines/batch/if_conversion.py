"""If-conversion: a branch around a straight run of instructions, which only some lanes take, becomes a run under a mask.

            goto.c  join            lanes in which c holds do not change until the join
            …                       the others execute the run; a mask keeps the registers and words of the first
    join:   from.c  goto            each lane tests c as the way on which it came demands

Conditions: the run has no branch and does not halt; both ways go on at the same place behind the join. No uncompute block that is skipped
(ghost_uncompute.py) begins or ends at the run or at the join, and no compute block holds the branch, because its steps are counted once for
all lanes.
Source: J. R. Allen, K. Kennedy, C. Porterfield, J. Warren, Conversion of control dependence to data dependence, POPL 1983.
"""

from __future__ import annotations

from typing import NamedTuple

from retrograd.simulator.engines.translator.flow import Flow, Node

#: switched off by tests
enabled = True


class Hammock(NamedTuple):
    """The run between a branch and its join, and where both ways go on."""

    run: list[int]
    join: int
    after: Node


def find_hammocks(flow: Flow) -> dict[int, Hammock]:
    """The branches that can be converted, by their addresses."""
    return {node[0]: found for node in flow.blocks if enabled and (found := _hammock(flow, node)) is not None}


def _hammock(flow: Flow, node: Node) -> Hammock | None:
    at, landed = node
    if landed or not flow.branches(at) or flow.leaves(at) != at or len(flow.jumps(at)) != 1:
        return None
    (join,), inner = flow.jumps(at), (at + 1, False)
    run = flow.blocks.get(inner, [])
    if not run or run != list(range(at + 1, join)) or any(flow.branches(k) or flow.code[k].opcode.halts for k in run):
        return None
    ways = flow.successors.get((join, False), []), flow.successors.get((join, True), [])
    if ways[0] != ways[1] or len(ways[0]) != 1 or flow.code[join].opcode.writes != flow.code[at].opcode.writes:
        return None
    for ghost in flow.ghosts:
        borders = ghost.start, ghost.end, ghost.undo, ghost.after
        if any(at < border <= join for border in borders) or any(
            first <= at < last for first, last in ((ghost.start, ghost.end), (ghost.undo, ghost.after))
        ):
            return None
    return Hammock(run, join, ways[0][0])
