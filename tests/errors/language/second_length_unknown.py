import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, n: int):
    t = rg.zeros(3, n)
    y += t[0, 0]


f(0.0, 3)
