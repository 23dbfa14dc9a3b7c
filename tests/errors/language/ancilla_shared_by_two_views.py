import retrograd as rg
from retrograd import fixed, reversible


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def f(y: fixed):
    t = rg.zeros(2)
    u = t[0:1]
    add(t[0], u[0])
    y += u[0]


f(1.0)
