import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed):
    if x < 0:
        rg.neg(x)


f(-1.0)
