"""Tropical numbers, a number type of the user's own: x ⊕ y = max(x, y) and x ⊗ y = x + y, with 0̸ = −∞ and 1̸ = 0.

The highest energy of a chain of spins sᵢ = ±1 is a product of tropical matrices, which takes n steps where the 2ⁿ states are
too many:

    E = ⊕ over s of ⊗ᵢ hᵢ sᵢ ⊗ Jᵢ sᵢ sᵢ₊₁  =  max over s of Σ hᵢ sᵢ + Σ Jᵢ sᵢ sᵢ₊₁

The gradient of E is the best state, since running backward follows the maxima that were taken.
Source: Liu, Wang, Zhang, Tropical tensor network for ground states of spin glasses, Phys. Rev. Lett. 126 (2021), 090506.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

import retrograd as rg
from retrograd import Array, fixed, reversible


@rg.struct
class Tropical:
    """A tropical number by its exponent: ⊗ adds, ⊕ takes the larger."""

    exponent: fixed

    @reversible
    def times(self, x: Tropical) -> None:
        """self ⊗= x. Inverse: self ⊘= x, exact, since every tropical number but −∞ has a reciprocal."""
        self.exponent += x.exponent


@reversible
def times_dot(z: Tropical, x: Array[Tropical, "n"], y: Array[Tropical, "n"]) -> None:
    """z ⊗= (x₀ ⊗ y₀) ⊕ (x₁ ⊗ y₁) ⊕ …

    A sum ⊕ loses its smaller term, so it is not added in place: it becomes a factor of z, and z ⊘= undoes it.
    """
    z.exponent += rg.max(x.exponent + y.exponent)


@reversible
def highest_energy(energy: Tropical, fields: Array[Tropical, "n", 2], couplings: Array[Tropical, "m", 2, 2]) -> None:
    """energy ⊗= ⊕ over s of ⊗ᵢ fields[i, sᵢ] ⊗ couplings[i, sᵢ₊₁, sᵢ], with n = m + 1: a product of tropical matrices."""
    with rg.routine() as r:
        best = rg.zeros_like(fields)  # best[i, s]: of the spins up to i, where spin i is s; all are 1̸ at first
        for s in range(2):
            best[0, s].times(fields[0, s])
        for i in range(len(couplings)):
            for s in range(2):
                # times_dot, written out: an array that a call changes is not passed to it a second time.
                best[i + 1, s].exponent += rg.max(couplings[i, s].exponent + best[i].exponent)
                best[i + 1, s].times(fields[i + 1, s])
    energy.exponent += rg.max(best[-1].exponent)
    ~r


def chain(fields: list[float], couplings: list[float]) -> tuple[Any, Any]:
    """Fields h and couplings J as tropical vectors and matrices: exponents ±h, and ±J for equal and unequal neighbours."""
    vectors = [[Tropical(-h), Tropical(h)] for h in fields]
    matrices = np.empty((len(couplings), 2, 2), dtype=object)
    for i, j in enumerate(couplings):
        for s in range(2):
            matrices[i, s] = [Tropical(j if s == t else -j) for t in range(2)]
    return vectors, matrices


def best_state(fields: list[float], couplings: list[float]) -> tuple[float, tuple[int, ...]]:
    """(the highest energy, the best state): the derivative by fields[i, s] is 1 where spin i is s, and 0 elsewhere."""
    of_fields = rg.value_and_grad(highest_energy, "fields", "energy.exponent")
    value, gradient = of_fields(Tropical(0.0), *chain(fields, couplings))
    return value, tuple(int(up.exponent - down.exponent) for down, up in gradient)


def highest_energy_of_all(fields: list[float], couplings: list[float]) -> tuple[float, tuple[int, ...]]:
    """(the highest energy, the best state) by going through all states."""

    def energy(s: tuple[int, ...]) -> float:
        bonds = zip(couplings, s, s[1:], strict=False)
        return sum(h * x for h, x in zip(fields, s, strict=True)) + sum(j * x * y for j, x, y in bonds)

    best = max(product((-1, 1), repeat=len(fields)), key=energy)
    return energy(best), best


if __name__ == "__main__":
    fields, couplings = [0.5, -0.25, 0.125, -1.0], [1.0, -2.0, 0.5]
    value, spins = best_state(fields, couplings)
    print(f"highest energy {value}, spins {spins}")
