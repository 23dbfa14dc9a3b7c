import retrograd as rg
from retrograd import fixed, reversible


@reversible
def power(y: fixed, x: fixed, n: rg.static):
    y += x**n


@reversible
def f(y: fixed, x: fixed, n: int):
    power(y, x, n)


f(0.0, 2.0, 3)
