import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def norm2(y: fixed, xs: Array[fixed, "n"]):
    y += rg.sum(xs * xs)


slope = rg.reversible_gradient(norm2, "xs")


@reversible
def f(y: fixed, xs: Array[fixed, "n"], g: Array[fixed, "n"], n: int):
    slope(y, xs[:n], g[: n + 1])


f(0.0, [1.0, 2.0, 3.0], [0.0, 0.0, 0.0], 2)
