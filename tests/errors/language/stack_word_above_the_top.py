import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, s: rg.Stack[fixed, 4], i: int):
    y += s[i]


f(0.0, [1.0, 2.0], 2)
