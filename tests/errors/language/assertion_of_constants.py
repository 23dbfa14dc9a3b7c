import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed]):
    assert len(xs) == 3
    y += rg.sum(xs)


f(0.0, [1.0, 2.0])
