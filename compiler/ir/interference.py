"""What a Within's body changes of what its compute did, and so what compute⁻¹ finds and leaves otherwise.

    changed = what body writes;  while a part of compute reads what is changed: changed += what that part writes

What is not changed has the same words in compute⁻¹ as it had in compute, at each place, and after the Within those that it had
before.
"""

from __future__ import annotations

from retrograd.compiler.ir.effects import Footprint, Footprints, union
from retrograd.compiler.ir.statements import Within


def changed_between(node: Within, footprints: Footprints) -> Footprint:
    """The variables and places that are changed, as `writes` and `stores`."""
    body = union(map(footprints.of, node.body))
    changed = Footprint(writes=body.writes, stores=body.stores)
    parts = [footprints.of(inner) for inner in node.compute]
    while True:
        reached = [part for part in parts if changed.disturbs(part)]
        if not reached:
            return changed
        parts = [part for part in parts if not changed.disturbs(part)]
        changed = Footprint(
            writes=changed.writes.union(*(part.writes for part in reached)),
            stores=changed.stores.union(*(part.stores for part in reached)),
        )
