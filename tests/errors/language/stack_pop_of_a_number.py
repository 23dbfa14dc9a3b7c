import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    x = rg.pop(y)


f(0.0)
