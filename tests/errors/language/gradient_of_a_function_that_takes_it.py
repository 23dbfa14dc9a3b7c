import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    g = fixed(0)
    d = fixed(0)
    dh(d, x, g)
    y += x * x
    ~dh(d, x, g)


@reversible
def h(y: fixed, x: fixed):
    f(y, x)


dh = rg.reversible_gradient(h, "x")
dh(0.0, 3.0, 0.0)
