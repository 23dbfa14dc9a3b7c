import retrograd as rg
from retrograd import reversible


@reversible
def f(x: int):
    s = rg.stack(int)
    rg.push(s, x)
    rg.pop(s, x)


f(3)
