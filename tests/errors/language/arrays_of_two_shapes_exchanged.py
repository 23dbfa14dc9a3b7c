import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(xs: Array[fixed], ys: Array[fixed]):
    rg.swap(xs, ys)


f([1.0, 2.0], [1.0, 2.0, 3.0])
