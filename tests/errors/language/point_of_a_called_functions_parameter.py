import retrograd as rg
from retrograd import fixed, reversible


@reversible
def scaled(y: fixed[60], x: fixed[60]):
    y += x * 1e-9


@reversible
def f(y: fixed, x: fixed):
    scaled(y, x)


rg.autoscale(f, 0.0, 2.5)
