import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(x: fixed, xs: Array[fixed]):
    rg.push(xs, x)


f(1.0, [1.0])
