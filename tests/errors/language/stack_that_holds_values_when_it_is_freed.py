import retrograd as rg
from retrograd import reversible


@reversible
def f(x: int):
    s = rg.stack(int, 4)
    rg.push(s, x)


f(3)
