import retrograd as rg
from retrograd import reversible


@reversible(format=rg.Format(8, 2))
def f(y: int, n: int):
    if n > -120:
        m = n - 1
        k = m + 1
        q = k + m
        f(y, m)
        del q
        y += k
        y -= m


f(0, 20)
