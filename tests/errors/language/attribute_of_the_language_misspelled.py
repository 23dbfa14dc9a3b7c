import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    with rg.rutine() as r:
        t = x * x
    y += t
    ~r


f(0.0, 1.0)
