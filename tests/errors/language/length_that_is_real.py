import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    t = rg.zeros(x)
    y += len(t)


f(0.0, 3.0)
