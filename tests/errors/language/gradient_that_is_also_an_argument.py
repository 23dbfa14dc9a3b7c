import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def total(y: fixed, v: Array[fixed, "n"]):
    for x in v:
        y += x * x


dtotal = rg.reversible_gradient(total)


@reversible
def f(y: fixed, v: Array[fixed, 4]):
    dtotal(y, v[:3], v[1:])


f(0.0, [1.0, 2.0, 3.0, 4.0])
