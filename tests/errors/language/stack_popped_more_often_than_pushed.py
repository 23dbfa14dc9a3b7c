import retrograd as rg
from retrograd import reversible


@reversible
def f(x: int, y: int):
    s = rg.stack(int, 4)
    rg.push(s, x)
    rg.pop(s, x)
    rg.pop(s, y)


f(3, 0)
