"""The acoustic wave equation in two dimensions: a leapfrog run that is undone to the bit, and the gradient by the medium.

    p += c ∇²q,    q += p        (q the pressure, p its change in a step, c the square of velocity × time step / mesh width)

Each update adds to one field a function of the others, so its inverse subtracts the same words. The gradient of a misfit by c,
full-waveform inversion, therefore needs no history of the field: memory does not grow with the number of steps.

The border is a layer that slows and scatters waves. A layer that absorbs, p ← (1 − σ) p, cannot be had in constant memory: a
reversible program is a bijection of its words, a bijection does not contract, and each such update contracts by 1 − σ. It would put
−log₂(1 − σ) bits a cell and step into further words. Here c falls to a hundredth at the edge, which holds a wave back, with random
factors, which scatter it: an echo returns late and incoherent. No field and no operation is added, and no word.
Sources: R. G. Clapp, "Reverse time migration with random boundaries", SEG 2009, for the random layer; M. A. Mironov, Soviet Physics
Acoustics 34 (1988), 318, for the slow layer.

    python -m retrograd.examples.wave [cells on a side] [steps]
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import numpy as np

import retrograd as rg
from retrograd import Array, fixed, reversible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]

#: c in the interior; the scheme is stable up to ½
COURANT = 0.2


# The tails of a pulse are smaller than a word can hold.
@reversible(precision="ignore")
def propagate(q: Array[fixed, "n", "m"], p: Array[fixed, "n", "m"], c: Array[fixed, "n", "m"], steps: int) -> None:
    """`steps` times p += c ∇²q, q += p; q is 0 on the edge. Inverse: the fields before, bit for bit. Trap: c beyond ½ overflows."""
    for _ in range(steps):
        for i in range(1, len(q) - 1):
            for j in range(1, len(q[0]) - 1):
                p[i, j] += c[i, j] * (q[i - 1, j] + q[i + 1, j] + q[i, j - 1] + q[i, j + 1] - 4 * q[i, j])
        for i in range(1, len(q) - 1):
            for j in range(1, len(q[0]) - 1):
                q[i, j] += p[i, j]


@reversible(precision="ignore")
def misfit(
    out: fixed,
    q: Array[fixed, "n", "m"],
    p: Array[fixed, "n", "m"],
    c: Array[fixed, "n", "m"],
    seen: Array[fixed, "n"],
    line: rg.static,
    steps: int,
) -> None:
    """The fields move on by `steps` steps, and out += Σᵢ (q[i, line] − seenᵢ)². Inverse: −=, and the fields before."""
    propagate(q, p, c, steps)
    for i in range(len(seen)):
        out += (q[i, line] - seen[i]) ** 2


def pulse(n: int) -> Reals:
    """A round pulse left of the middle of n × n cells, a twelfth of them wide."""
    y, x = np.mgrid[-1 : 1 : n * 1j, -1 : 1 : n * 1j]
    q = np.exp(-60 * ((x + 0.4) ** 2 + y**2))
    q[[0, -1]] = q[:, [0, -1]] = 0
    return q


def medium(n: int, lens: float = 0.0, seed: int = 1) -> Reals:
    """c on n × n cells: COURANT, in a lens in the middle less by that part, and a layer of n // 6 cells at the border."""
    i = np.arange(n)
    off = np.minimum(i, n - 1 - i)
    depth = np.clip(1 - np.minimum(off[:, None], off[None]) / (n // 6), 0, 1)
    factor = np.random.default_rng(seed).uniform(size=(n, n))
    y, x = np.mgrid[-1 : 1 : n * 1j, -1 : 1 : n * 1j]
    inside = COURANT * (1 - lens * np.exp(-20 * (x**2 + y**2)))
    return inside * (1 - 0.9 * depth) ** 2 * (1 - 0.5 * depth * factor)


def reference(q: Reals, p: Reals, c: Reals, steps: int) -> tuple[Reals, Reals]:
    """(q, p) after `steps` steps in floating point."""
    q, p = q.copy(), p.copy()
    inner = np.s_[1:-1, 1:-1]
    for _ in range(steps):
        p[inner] += c[inner] * (q[:-2, 1:-1] + q[2:, 1:-1] + q[1:-1, :-2] + q[1:-1, 2:] - 4 * q[inner])
        q[inner] += p[inner]
    return q, p


def main() -> None:
    """Run forward and back, and differentiate the misfit of a wrong medium."""
    n, steps = (int(a) for a in (*sys.argv[1:], *("48", "120")[len(sys.argv) - 1 :]))
    q, p = pulse(n), np.zeros((n, n))
    true, guess = medium(n, lens=0.3), medium(n)
    run = rg.run(propagate, q, p, true, steps)
    after = run.values
    print(f"{steps} steps of {n} × {n} cells: {run.steps} instructions, {len(run.machine.memory)} words")
    print(f"largest difference from floating point: {np.abs(after.q - reference(q, p, true, steps)[0]).max():.1e}")
    back = (~propagate)(*after)
    print(f"back at the first word: {np.array_equal(back.q, rg.fixed.to_reals(rg.fixed.to_words(q)))}")
    line = 3 * n // 4
    begun = time.perf_counter()
    slope = rg.grad(misfit, "c", loss="out")(0.0, q, p, guess, after.q[:, line], line, steps)
    y, x = np.unravel_index(np.abs(slope).argmax(), slope.shape)
    print(f"the misfit depends most on cell ({y}, {x}), by {slope[y, x]:.3f} ({time.perf_counter() - begun:.1f} s)")


if __name__ == "__main__":
    main()
