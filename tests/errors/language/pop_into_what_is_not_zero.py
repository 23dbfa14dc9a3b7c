import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed, s: rg.Stack[fixed, 2]):
    rg.pop(s, x)


f(1.0, [2.0])
