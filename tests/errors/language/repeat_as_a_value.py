import retrograd as rg
from retrograd import reversible


@reversible
def f(n: int, x: int):
    x += rg.repeat(n == 0, until=n > 3)


f(0, 5)
