import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, x: Array[fixed, "n"]):
    y += rg.sum(x * x)


rg.hvp(f, "x")((0.0, [1.0, 2.0]), [1.0, 0.0, 0.0])
