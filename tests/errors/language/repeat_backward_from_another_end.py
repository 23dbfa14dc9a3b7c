import retrograd as rg
from retrograd import reversible


@reversible
def f(n: int, x: int):
    for _ in rg.repeat(n == 0, until=n > 3):
        x += n
        n += 1


(~f)(2, 5)
