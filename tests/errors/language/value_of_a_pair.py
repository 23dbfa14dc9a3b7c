import retrograd as rg
from retrograd import fixed, reversible


@rg.functional
def both(x: fixed):
    return x, x * x


@reversible
def f(y: fixed, x: fixed):
    y += both(x)


f(0.0, 1.0)
