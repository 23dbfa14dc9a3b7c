import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, x: Array[fixed, "n"]):
    y += rg.max(x)


f(0.0, [])
