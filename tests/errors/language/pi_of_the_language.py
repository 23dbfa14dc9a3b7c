import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, r: fixed):
    y += rg.pi * r * r


f(0.0, 1.0)
