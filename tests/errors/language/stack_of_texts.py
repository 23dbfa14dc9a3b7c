import retrograd as rg
from retrograd import reversible


@reversible
def f(n: int):
    s = rg.stack(str, 4)
    n += len(s)


f(1)
