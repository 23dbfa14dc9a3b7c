import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    y += rg.sqrt(-1.0)


f(0.0)
