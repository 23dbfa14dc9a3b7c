"""Ways to the gradient of a chain of n steps, and their energies: a tape, checkpoints, Bennett's scheme, running
backward.

    way         steps forward            adjoint steps    words stored
    tape        n                        n                each state once, and read once
    revolve     n + advances(n, c)       n                c states at a time
    Bennett     (2k − 1)^m, n = k^m      n                m(k − 1) + 2 states at a time
    backward    n                        n                none: an adjoint step recovers the state before it

    E = (steps forward · F) + (adjoint steps · B) + words moved between memories

All ways pay the same F and B for a step, which are differences of two runs. So the comparison is of the steps and of
the words, and is fair to each.
F, B and words are priced by one model, and ratios have correlated ranges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from retrograd.simulator.energy.comparisons import Priced
from retrograd.simulator.energy.counts import Counts
from retrograd.simulator.energy.pricing import Item, NotModelled, Price, price
from retrograd.simulator.energy.technology import Technology


@cache
def advances(steps: int, snapshots: int) -> int:
    """t(l, c) = r·l − C(c + r, r − 1), r the least with C(c + r, r) ≥ l: the fewest steps forward between checkpoints.

    `snapshots`: the states that are kept at one time, the first included. Each of the l steps is made once more,
    beside its adjoint.
    Source: A. Griewank, A. Walther, Algorithm 799: revolve, ACM Trans. Math. Softw. 26, 19 (2000).

    >>> advances(10, 3), advances(100, 10), advances(1, 1)
    (15, 222, 0)
    """
    if steps < 1 or snapshots < 1:
        raise ValueError("a chain has a step, and a snapshot of its first state")
    r = 0
    while math.comb(snapshots + r, r) < steps:
        r += 1
    return r * steps - (math.comb(snapshots + r, r - 1) if r else 0)


class Stack(NamedTuple):
    """A stack of words that is filled once and emptied once, such as a tape.

    The words that were pushed last are popped first. So a memory of C words keeps C of them, and the others go once
    to the next memory, and once back.
    """

    words: float
    width: int = 64


Part = Counts | Stack


def mixture(technology: Technology, parts: Sequence[tuple[float, Part]]) -> Priced:
    """Σ weight · price of runs and stacks, as an energy that can be compared. At least one part is a run."""
    program = next(part.program for _, part in parts if isinstance(part, Counts))

    def priced(model: Technology) -> Price:
        nothing = price(Counts(program, {}), model)
        items = [
            scaled(item, weight)
            for weight, part in parts
            for item in (
                price(part, model).items if isinstance(part, Counts) else _of_stack(part, model, nothing.temperature)
            )
        ]
        return replace(nothing, items=tuple(items))

    return Priced(technology, priced)


def scaled(item: Item, weight: float) -> Item:
    """The item `weight` times."""
    energy = item.energy if isinstance(item.energy, NotModelled) else item.energy * weight
    return replace(item, count=item.count * weight, energy=energy)


def _of_stack(stack: Stack, model: Technology, kelvins: float) -> Iterator[Item]:
    """Its words in each memory of a hierarchy: all of them in the first, and in the next those for which the one
    before has no room."""
    charges = [charge for charge in model.charges if charge.law.name == "hierarchy"]
    if not charges:
        why = NotModelled(f"{model.id} has no hierarchy of memories")
        yield Item("memory", "stack", stack.words, "words", why, kelvins)
    for charge in charges:
        left = stack.words
        for capacity, figures in charge.memories:
            for written, size in figures.items():
                energy = size.energy.at(kelvins) * (left * stack.width / size.bits)
                label = f"stack, {charge.label}: {'writes' if written else 'reads'}"
                yield Item("memory", label, left, "words", energy, kelvins, (size.energy,))
            left = max(0.0, stack.words - capacity * 8 / stack.width)
            if not left:
                break
        if left:
            yield Item("memory", "stack", left, "words", NotModelled("no memory holds them"), kelvins)
