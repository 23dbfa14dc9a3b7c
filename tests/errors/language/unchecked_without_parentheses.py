import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    with rg.unchecked:
        y += x


f(0.0, 2.0)
