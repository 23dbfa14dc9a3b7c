import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    n = 3
    t = rg.zeros(n)
    n += 1
    y += t[0]


f(1.0)
