import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed, y: fixed):
    with rg.view(-x) as y:
        y += 1


f(1.0, 2.0)
