import retrograd as rg
from retrograd import fixed, reversible


@reversible
def g(y):
    y += 1


@reversible
def f(y: fixed):
    with rg.routine() as r:
        t = y * y
    g(r)
    ~r


f(1.0)
