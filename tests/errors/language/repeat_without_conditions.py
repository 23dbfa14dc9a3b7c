import retrograd as rg
from retrograd import reversible


@reversible
def f(n: int, x: int):
    for _ in rg.repeat():
        x += n
        n += 1


f(0, 5)
