import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, rate: fixed):
    y += rate * rate


rg.grad(f, "rates")(0.0, 2.0)
