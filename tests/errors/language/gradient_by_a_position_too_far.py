import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += x * x


rg.grad(f, 2)(0.0, 2.0)
