"""Functions of each kind of argument, as version 0.1.0 reads them."""

import retrograd as rg


@rg.reversible
def norm(out: rg.fixed, n: int, x: rg.Array[rg.fixed, 3]):
    """out += |x|², n times"""
    for _ in range(n):
        for i in range(3):
            out += x[i] * x[i]


@rg.reversible
def halved(x: rg.uint, lost: rg.uint):
    """Erase the lowest bit of x."""
    with rg.routine() as r:
        low = x & 1
    lost += low
    ~r
    rg.erase(lost)
