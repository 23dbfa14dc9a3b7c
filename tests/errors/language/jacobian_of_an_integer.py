import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(n: int, y: fixed, x: fixed):
    y += x * x
    n += 1


rg.jacobian(f, "x", "n")(0, 0.0, 2.0)
