import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, w: complex):
    y += w


f(1.0, 1j)
