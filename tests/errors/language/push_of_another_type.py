import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(n: int, s: rg.Stack[fixed, 4]):
    rg.push(s, n)


f(1, [])
