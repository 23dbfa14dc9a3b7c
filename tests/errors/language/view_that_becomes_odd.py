import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed, y: fixed):
    with rg.view(2 * x) as m:
        m += y


f(1.0, 2.0**-32)
