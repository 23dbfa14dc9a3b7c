import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    t = rg.zeros(3)
    t[1] += x
    y += t[1]


f(1.0, 2.5)
