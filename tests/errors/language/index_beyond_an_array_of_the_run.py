import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, n: int, i: int):
    t = rg.zeros(n)
    y += t[i]


f(0.0, 3, 3)
