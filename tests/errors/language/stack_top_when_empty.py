import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, s: rg.Stack[fixed, 4]):
    y += rg.top(s)


f(0.0, [])
