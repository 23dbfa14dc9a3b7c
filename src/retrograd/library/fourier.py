"""The fast Fourier transform, in place and exactly reversible.

    x̂ₖ = n^(−½) Σⱼ xⱼ e^(−2πijk/n)

Scaled by n^(−½) the transform is unitary, and so a product of rotations. The inverse of a rotation by lifting (`rg.rot`) is
exact although its sine is rounded. The inverse transform therefore restores every bit.
"""

from __future__ import annotations

from math import log2, pi
from typing import TYPE_CHECKING, Any

import numpy as np

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library.complex import Complex

if TYPE_CHECKING:
    from numpy.typing import NDArray


@rg.pure
def _bit_reversed(n: int) -> NDArray[Any]:
    """The numbers below n, a power of two, with their bits in opposite order."""
    bits = int(log2(n))
    return np.array([int(f"{i:0{bits}b}"[::-1], 2) if bits else 0 for i in range(n)])


@rg.pure
def _angles(half: int) -> NDArray[Any]:
    """−πj/half for all j < half: the turns of one stage."""
    return -pi * np.arange(half) / half


@rg.pure
def _stages(n: int) -> list[int]:
    """1, 2, 4, …, n/2. Raises ValueError where n is no power of two."""
    if n < 1 or n & (n - 1):
        raise ValueError(f"a length of {n} is no power of two")
    return [1 << i for i in range(n.bit_length() - 1)]


@reversible
def fft(x: Array[Complex, "n"]) -> None:
    """x̂ₖ = n^(−½) Σⱼ xⱼ e^(−2πijk/n), in place, n a power of two. Inverse: the inverse transform, bit for bit.

    NumPy's fft(x, norm="ortho"), to some last places per stage; 3 rotations for each of the ½ n log₂ n butterflies.
    Trap: a butterfly x ± y without scaling would have an inverse that halves, and a half does not fit into a last
    place.
    Source: Cooley and Tukey, Mathematics of Computation 19 (1965), 297; lifting: Oraintara, Chen and Nguyen,
    IEEE Transactions on Signal Processing 50 (2002), 607.
    """
    n = len(x)
    stages = _stages(n)
    partner = _bit_reversed(n)
    for i in range(n):
        if i < partner[i]:
            rg.swap(x[i], x[partner[i]])
    for half in stages:
        angles = _angles(half)
        for start in range(0, n, 2 * half):
            for j in range(half):
                butterfly(x[start + j], x[start + half + j], angles[j])


@reversible
def butterfly(a: Complex, b: Complex, angle: fixed) -> None:
    """(a, b) := ((a + w b)/√2, (a − w b)/√2), w = e^{iθ}.

    Inverse: (a, b) := ((a + b)/√2, w̄(a − b)/√2), bit for bit.
    """
    b.rotate(angle)
    rg.irot(a.re, b.re, pi / 4)
    rg.irot(a.im, b.im, pi / 4)
    rg.neg(b.re)
    rg.neg(b.im)
