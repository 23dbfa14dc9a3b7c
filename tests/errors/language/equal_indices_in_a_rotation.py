import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(a: Array[fixed], i: int, j: int):
    rg.rot(a[i], a[j], 0.5)


f([1.0, 2.0, 3.0], 1, 1)
