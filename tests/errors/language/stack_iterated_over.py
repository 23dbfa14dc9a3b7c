import retrograd as rg
from retrograd import reversible


@reversible
def f(y: int, s: rg.Stack[int, 5]):
    for x in s:
        y += x


f(0, [3, 4])
