import retrograd as rg
from retrograd import fixed, reversible


@reversible
def square(y, x):
    y += x * x


dsquare = rg.reversible_gradient(square, "x")


@reversible
def f(y: fixed, x: fixed, n: int):
    dsquare(y, x, n)


f(0.0, 3.0, 0)
