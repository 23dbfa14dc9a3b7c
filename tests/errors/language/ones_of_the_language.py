import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    t = rg.ones(3)
    y += t[0]


f(0.0)
