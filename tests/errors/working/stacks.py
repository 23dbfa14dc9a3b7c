import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed, y: fixed, s: rg.Stack[fixed, 5]):
    rg.push(s, x)
    rg.push(s, y)
    rg.pop(s, x)
    t = rg.stack(int, 3)
    n = 4
    rg.push(t, n)
    rg.pop(t, n)
    del n


ARGUMENTS = [(1.5, 2.5, [7.0])]
