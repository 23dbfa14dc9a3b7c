import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def norm(y: fixed, x: Array[fixed, 3]):
    y += rg.sum(x * x)


norm(0.0, [1.0, 2.0])
