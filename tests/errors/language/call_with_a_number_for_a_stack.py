import retrograd as rg
from retrograd import fixed, reversible


@reversible
def save(s: rg.Stack[fixed, 4], x: fixed):
    rg.push(s, x)


@reversible
def f(y: fixed, x: fixed):
    save(y, x)


f(1.0, 2.0)
