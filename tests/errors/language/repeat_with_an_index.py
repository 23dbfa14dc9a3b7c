import retrograd as rg
from retrograd import reversible


@reversible
def f(n: int, x: int):
    for i in rg.repeat(n == 0, until=n > 3):
        x += i
        n += 1


f(0, 5)
