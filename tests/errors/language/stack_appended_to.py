import retrograd as rg
from retrograd import reversible


@reversible
def f(s: rg.Stack[int, 5], x: int):
    s.append(x)


f([], 3)
