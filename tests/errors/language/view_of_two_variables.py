import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed, y: fixed):
    with rg.view(-x, -y) as m:
        m += 1


f(1.0, 2.0)
