import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(ys: Array[fixed]):
    ys += rg.zeros(3)


f([0.0, 1.0, 2.0])
