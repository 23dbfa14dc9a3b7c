import retrograd as rg
from retrograd import reversible


@reversible
def f(n: int, x: int):
    for _ in rg.repeat(n == 0, n > 3, n > 4):
        x += n
        n += 1


f(0, 5)
