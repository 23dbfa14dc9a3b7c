import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed, y: fixed):
    with rg.view(-x) as m:
        m += 1
    y += m


f(1.0, 2.0)
