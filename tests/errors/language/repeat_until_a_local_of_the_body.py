import retrograd as rg
from retrograd import reversible


@reversible
def f(n: int, x: int):
    for _ in rg.repeat(n == 0, until=t > 3):
        t = 2 * x
        n += 1
        x += 1
        rg.free(t, 2 * x - 2)


f(0, 5)
