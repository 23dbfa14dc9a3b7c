import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, s: Array[fixed, 2]):
    y += rg.top(s)


f(0.0, [1.0, 2.0])
