import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, s: rg.Stack[fixed, 4]):
    x = rg.pop(s)
    y += x


f(0.0, [1.0])
