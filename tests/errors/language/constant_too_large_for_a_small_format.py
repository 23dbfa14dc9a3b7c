import retrograd as rg
from retrograd import fixed, reversible


@reversible(format=rg.Format(16, 8))
def f(y: fixed):
    y += 200.0


f(0.0)
