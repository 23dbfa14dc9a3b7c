import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed):
    with rg.view(-x):
        x += 1


f(1.0)
