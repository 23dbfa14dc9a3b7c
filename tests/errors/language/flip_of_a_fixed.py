import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed):
    rg.flip(x)


f(1.0)
