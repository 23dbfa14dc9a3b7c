import retrograd as rg
from retrograd import reversible


@reversible
def f(s: rg.Stack[int, 5], x: int):
    rg.push(s, x + 1)


f([], 3)
