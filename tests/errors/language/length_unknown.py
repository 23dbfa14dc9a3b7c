import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, n: int):
    t = rg.zeros(n)
    y += t[0]


f(0.0, 3)
