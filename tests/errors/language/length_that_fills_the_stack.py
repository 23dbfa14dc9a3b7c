import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, n: int):
    t = rg.zeros(n)
    t[n - 1] += 1
    y += t[n - 1]
    t[n - 1] -= 1


f(0.0, 1_000_000)
