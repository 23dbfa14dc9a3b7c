import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: Array[fixed, 2], x: fixed):
    y[1] += x * x


rg.jacobian(f, "x", "z")([0.0, 0.0], 2.0)
