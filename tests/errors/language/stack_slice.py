import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, s: rg.Stack[fixed, 4]):
    y += rg.sum(s[1:])


f(0.0, [1.0, 2.0])
