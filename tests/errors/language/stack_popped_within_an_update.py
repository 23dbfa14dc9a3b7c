import retrograd as rg
from retrograd import reversible


@reversible
def f(y: int, s: rg.Stack[int, 5]):
    y += rg.pop(s)


f(0, [3])
