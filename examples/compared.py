"""Functions whose reversible and irreversible netlists are compared: docs/reversible-gates-compared.md.

python -m retrograd.cli.main gates examples/compared.py:product --format 32,16 --tech aqfp
"""

from __future__ import annotations

import retrograd as rg
from retrograd import Array, fixed, library, reversible


@reversible
def addition(y: int, x: int) -> None:
    """y += x"""
    y += x


@reversible
def product(z: fixed, x: fixed, y: fixed) -> None:
    """z += x y"""
    z += x * y


@reversible
def hypotenuse(r: fixed, x: fixed, y: fixed) -> None:
    """r += √(x² + y²)"""
    r += rg.sqrt(x * x + y * y)


@reversible
def sorting(x: Array[fixed, 16], permutation: Array[int, 16]) -> None:
    """x := x in ascending order; permutation[i] := the former index of x[i]."""
    library.sort(x, permutation)


@reversible
def leapfrog_step(q: Array[fixed, 2], v: Array[fixed, 2]) -> None:
    """A body around a mass of 1 in the origin, dt = 1/16:  q += v dt/2;  v −= q dt / |q|³;  q += v dt/2."""
    q += v / 32
    with rg.routine() as r:
        square = q[0] * q[0] + q[1] * q[1]
        pull = 0.0625 / (square * rg.sqrt(square))
    v -= pull * q
    ~r
    q += v / 32
