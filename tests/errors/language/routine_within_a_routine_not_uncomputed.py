import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    with rg.routine() as r:
        with rg.routine() as s:
            t = x * x
        u = t * t
    y += u
    ~r


f(1.0, 2.0)
