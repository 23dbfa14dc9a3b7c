import retrograd as rg
from retrograd import reversible


@reversible
def f(y: int, s: rg.Stack[int, 5]):
    while s:
        x = rg.pop(s)
        y += x
        rg.push(s, x)


f(0, [3, 4])
