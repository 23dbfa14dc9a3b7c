"""A function with variables of several structures, a call, and a loop."""

from __future__ import annotations

import retrograd as rg

print("the file is executed")


@rg.struct
class Point:
    x: rg.fixed
    v: rg.Array[int, 2]


@rg.reversible
def inner(total: rg.fixed, n: int):
    if n > 0:
        total += 0.5
        inner(total, n - 1)


@rg.reversible
def f(p: Point, m: rg.Array[rg.fixed, 2, 2], n: int, b: bool, large: rg.Array[int, 30]):
    p.x += 1.5
    for i in range(n):
        m[0, 1] += p.x
        large[i] += i
    inner(p.x, n)
    p.v[1] += n
