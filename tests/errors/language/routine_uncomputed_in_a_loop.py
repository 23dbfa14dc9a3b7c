import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    with rg.routine() as r:
        t = x * x
    for i in range(3):
        y += t
        ~r


f(0.0, 2.0)
