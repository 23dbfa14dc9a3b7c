import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def powers(y: Array[fixed, 3], x: fixed):
    for k in range(3):
        y[k] += x ** (k + 1)


slope = rg.reversible_gradient(powers, "x", loss="y[3]")


@reversible
def f(y: Array[fixed, 3], x: fixed, g: fixed):
    slope(y, x, g)


f([0.0, 0.0, 0.0], 2.0, 0.0)
