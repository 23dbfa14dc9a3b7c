"""What a Within's body changes of what its compute did, and so what compute⁻¹ finds and leaves otherwise.

    changed = what body writes;  while a part of compute reads what is changed: changed += what that part writes

What is not changed has the same words in compute⁻¹ as it had in compute, at each place, and after the Within those that it had
before.
"""

from __future__ import annotations

from retrograd.compiler.ir.effects import AccessAnalysis, AccessSets, union
from retrograd.compiler.ir.statements import Within


def clobbered_between(node: Within, accesses: AccessAnalysis) -> AccessSets:
    """The variables and places that are changed, as `writes` and `stores`."""
    body = union(map(accesses.of, node.body))
    changed = AccessSets(writes=body.writes, stores=body.stores)
    parts = [accesses.of(inner) for inner in node.compute]
    while True:
        reached = [part for part in parts if changed.clobbers(part)]
        if not reached:
            return changed
        parts = [part for part in parts if not changed.clobbers(part)]
        changed = AccessSets(
            writes=changed.writes.union(*(part.writes for part in reached)),
            stores=changed.stores.union(*(part.stores for part in reached)),
        )
