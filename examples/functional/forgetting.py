"""The memory of a chain of n calls v ↦ sin v + x against its time, by three schemes of forgetting.

    kept                all of the chain stays until the end                      O(n) words, O(n) instructions
    in_parts            √n parts, each of which is computed, copied, uncomputed   O(√n) words, twice the instructions
    in_parts_of_parts   four parts, each of four parts …                          O(log n) words, O(n^1.5) instructions

    python -m retrograd.examples.functional.forgetting [LARGEST]        prints words and instructions for n = 16, 64 … LARGEST

Source: C. H. Bennett, Time/Space Trade-offs for Reversible Computation, SIAM J. Comput. 18, 1989.
"""

from __future__ import annotations

import sys

import retrograd as rg
from retrograd import fixed
from retrograd.physics.advice import Measured, measured


@rg.functional
def some(x, v, k):
    """k steps of the chain"""
    return v if k == 0 else some(x, rg.sin(v) + x, k - 1)


@rg.functional
def kept(x: fixed, n: int):
    """All steps stay until the end."""
    return some(x, x, n)


@rg.functional
def in_parts(x: fixed, n: int, size: int):
    """n / size parts, each of which is uncomputed."""

    def parts(v, k):
        if k == 0:
            return v
        with rg.forget():
            there = some(x, v, size)
        return parts(there, k - 1)

    return parts(x, n // size)


@rg.functional
def in_parts_of_parts(x: fixed, level: int):
    """4 ** level steps: each level is the four parts of a level below, in a block that uncomputes them."""

    def part(v, k):
        if k == 0:
            return rg.sin(v) + x
        with rg.forget():
            return part(part(part(part(v, k - 1), k - 1), k - 1), k - 1)

    return part(x, level)


def schemes(level: int) -> list[Measured]:
    """Words and instructions of a chain of 4 ** level calls, by each scheme."""
    n, root = 4**level, 2**level
    runs = ((kept, (0.3, n)), (in_parts, (0.3, n, root)), (in_parts_of_parts, (0.3, level)))
    return [measured(f.compiled(*args), [*args, 0.0]) for f, args in runs]


def main(largest: int) -> None:
    print(f"{'n':>6}{'kept':>18}{'in √n parts':>18}{'in parts of parts':>20}")
    print(f"{'':>6}{'words':>8}{'steps':>10}{'words':>8}{'steps':>10}{'words':>8}{'steps':>12}")
    level = 2
    while 4**level <= largest:
        a, b, c = schemes(level)
        print(f"{4**level:>6}{a.words:>8}{a.steps:>10}{b.words:>8}{b.steps:>10}{c.words:>8}{c.steps:>12}")
        level += 1


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 256)
