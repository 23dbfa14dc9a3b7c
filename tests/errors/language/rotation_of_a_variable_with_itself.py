import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed):
    rg.rot(x, x, 0.5)


f(1.0)
