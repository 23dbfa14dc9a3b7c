"""Trees of branches for a core whose front end is ahead: the new BR is known early, and of a `from` it is known before.

    guard br = 0:   br′ := br + x = x
    guard br′ = 0:  br′ := 0,  br − (p ? x : 0) = 0  ⇔  p ? br = x : br = 0

An instruction whose guard demands that BR be 0 behind it is followed by the next one in the code, as other instructions are.
"""

from __future__ import annotations

from retrograd.isa.expr import ZERO, Expr, place, select
from retrograd.isa.microarchitecture.stages import InstructionTrees


def shortened(trees: InstructionTrees, settled: bool) -> InstructionTrees:
    """Trees with the same meaning wherever all guards hold, and with the same guards. `settled`: a guard demands that BR be 0 before."""
    new = trees.after.get("br")
    if new is None:
        return trees
    demanded = new.eq(ZERO)
    if demanded not in trees.guards:
        known = settled and new.op == "add" and new.args[0] is place("br")
        return InstructionTrees({**trees.after, "br": new.args[1] if known else new}, trees.guards)
    guards = tuple(_vanishes(new) if guard is demanded else guard for guard in trees.guards)
    return InstructionTrees({**trees.after, "br": ZERO}, guards)


def _vanishes(new: Expr) -> Expr:
    if new.op != "sub":
        return new.eq(ZERO)
    br, step = new.args
    if step.op != "select":
        return br.eq(step)
    condition, then, otherwise = step.args
    return select(condition, br.eq(then), br.eq(otherwise))
