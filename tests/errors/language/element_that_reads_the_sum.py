import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(a: Array[fixed]):
    a[0] += rg.sum(a)


f([1.0, 2.0])
