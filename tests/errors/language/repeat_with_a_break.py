import retrograd as rg
from retrograd import reversible


@reversible
def f(n: int, x: int):
    for _ in rg.repeat(n == 0, until=n > 3):
        n += 1
        if x > 3:
            break


f(0, 5)
