import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    with rg.unchecked(memory=True):
        y += x


f(1.0, 2.0)
