import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed, g: fixed):
    y += x * x
    df(y, x, y, g)


df = rg.reversible_gradient(f, "x")
f(0.0, 3.0, 0.0)
