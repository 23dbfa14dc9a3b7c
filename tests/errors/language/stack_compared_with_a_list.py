import retrograd as rg
from retrograd import reversible


@reversible
def f(y: int, s: rg.Stack[int, 5]):
    if s == []:
        y += 1


f(0, [])
