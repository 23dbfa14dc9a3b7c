import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed):
    x += rg.view(-x)


f(1.0)
