import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    t = rg.array([x, 2 * x])
    y += t[0]


f(0.0, 1.0)
