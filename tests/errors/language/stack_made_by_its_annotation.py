import retrograd as rg
from retrograd import reversible


@reversible
def f(x: int):
    s = rg.Stack[int, 5]()
    rg.push(s, x)
    rg.pop(s, x)


f(3)
