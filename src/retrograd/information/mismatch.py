"""The mismatch cost: the heat beyond Landauer's bound of a device that was made for another distribution.

mismatch(p, q, P) = KL(p ‖ q) − KL(Pp ‖ Pq) ≥ 0 bits,  KL(p ‖ q) = Σ p log₂(p / q)

A device that maps states by P, with the least heat for states of distribution q, dissipates kT ln 2 more for each bit of mismatch where the
states have distribution p (A. Kolchinsky, D. H. Wolpert, J. Stat. Mech. 2017, 083202). It is 0 where P is a bijection. Erasing a
word of W bits by a device for uniform words costs W = H(p) + KL(p ‖ uniform) bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from retrograd.information.errors import refuse

_State = TypeVar("_State", bound=Hashable)


def mismatch(p: Mapping[_State, float], q: Mapping[_State, float], process: Callable[[_State], Any]) -> float:
    """KL(p ‖ q) − KL(Pp ‖ Pq), in bits.

    `process`: the state that follows a state, or a mapping of states to their probabilities. Raises InputError RG1602 where q
    excludes a state that p has.

    >>> uniform = {k: 1 / 8 for k in range(8)}
    >>> mismatch({0: 0.5, 1: 0.5}, uniform, lambda k: 0)
    2.0
    >>> mismatch({0: 0.5, 1: 0.5}, uniform, lambda k: k ^ 5)
    0.0
    """
    before = divergence(p, q)
    return max(0.0, before - divergence(_after(p, process), _after(q, process)))


def divergence(p: Mapping[_State, float], q: Mapping[_State, float]) -> float:
    """KL(p ‖ q) = Σ p log₂(p / q), in bits. Raises InputError RG1602 where it is infinite."""
    for state, x in p.items():
        if x and not q.get(state):
            raise refuse("RG1602", f"the prior has probability 0 for {state!r:.60}, which occurs")
    return math.fsum(x * math.log2(x / q[state]) for state, x in p.items() if x)


def _after(p: Mapping[Any, float], process: Callable[[Any], Any]) -> dict[Any, float]:
    """The distribution after the process."""
    parts: dict[Any, list[float]] = {}
    for state, x in p.items():
        found = process(state)
        for end, y in (found if isinstance(found, Mapping) else {found: 1.0}).items():
            parts.setdefault(end, []).append(x * y)
    return {end: math.fsum(found) for end, found in parts.items()}
