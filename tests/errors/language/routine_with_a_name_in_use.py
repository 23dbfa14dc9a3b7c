import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, r: fixed):
    with rg.routine() as r:
        t = y * 2
    ~r


f(1.0, 2.0)
