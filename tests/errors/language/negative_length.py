import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    t = rg.zeros(-1)
    y += t[0]


f(0.0)
