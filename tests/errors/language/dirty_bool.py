import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    positive = x > 0
    rg.flip(positive)
    y += 1


f(1.0, 3.0)
