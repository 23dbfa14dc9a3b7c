import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed]):
    y += rg.sum(xs[::0])


f(0.0, [1.0, 2.0])
