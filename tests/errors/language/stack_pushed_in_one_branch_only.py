import retrograd as rg
from retrograd import reversible


@reversible
def f(s: rg.Stack[int, 5], x: int):
    if s:
        rg.push(s, x)


f([1, 2], 3)
