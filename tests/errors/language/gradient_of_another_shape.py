import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def total(y, v):
    for x in v:
        y += x * x


dtotal = rg.reversible_gradient(total, "v")


@reversible
def f(y: fixed, v: Array[fixed, 3], g: Array[fixed, 2]):
    dtotal(y, v, g)


f(0.0, [1.0, 2.0, 3.0], [0.0, 0.0])
