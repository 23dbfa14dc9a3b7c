import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    with rg.routine() as r, rg.routine() as s:
        t = y * 2
    ~r


f(0.0)
