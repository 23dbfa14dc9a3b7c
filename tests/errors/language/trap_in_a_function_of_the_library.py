import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += 1
    y += rg.acos(x) * 2


f(0.0, 2.0)
