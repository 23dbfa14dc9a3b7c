import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    rg.neg(x + y)


f(1.0, 2.0)
