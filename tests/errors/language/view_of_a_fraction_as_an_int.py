import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed):
    with rg.view(int(x)) as n:
        n += 1


f(1.5)
