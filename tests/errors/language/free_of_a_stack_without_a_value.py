import retrograd as rg
from retrograd import reversible


@reversible
def f(n: int):
    s = rg.stack(int, 4)
    rg.push(s, n)
    rg.pop(s, n)
    rg.free(s)


f(3)
