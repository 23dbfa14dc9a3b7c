import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed, n: int):
    y += x * x - 0.5 * x / 4
    n += 3
    n ^= 5
    y -= rg.sqrt(x) + rg.sin(x) * rg.exp(x)
    rg.neg(n)


ARGUMENTS = [(1.0, 2.0, 3), (0.5, 0.25, -1)]
