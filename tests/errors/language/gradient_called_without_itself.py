import retrograd as rg
from retrograd import fixed, reversible


@reversible
def square(y: fixed, x: fixed):
    y += x * x


dsquare = rg.reversible_gradient(square)


@reversible
def f(y: fixed, x: fixed):
    dsquare(y, x)


f(0.0, 3.0)
