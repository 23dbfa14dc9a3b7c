import retrograd as rg
from retrograd import reversible


@reversible
def f(x: int, n: int):
    s = rg.stack(int, n)
    rg.push(s, x)
    rg.pop(s, x)


f(3, 5)
