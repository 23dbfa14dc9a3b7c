import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed):
    with rg.routine() as r:
        t = 2 * x
    x += t
    ~r


f(2.0)
