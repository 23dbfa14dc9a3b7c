import retrograd as rg
from retrograd import reversible


@reversible
def f(s: rg.Stack[int], x: int):
    rg.push(s, x)


f([], 3)
