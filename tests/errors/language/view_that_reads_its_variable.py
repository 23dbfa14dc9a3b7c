import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed, y: fixed):
    with rg.view(-x) as m:
        m += x * y


f(1.0, 2.0)
