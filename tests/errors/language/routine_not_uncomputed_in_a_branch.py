import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    if x > 0:
        with rg.routine() as squares:
            t = x * x
        y += t


f(1.0, 2.0)
