import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, n: rg.static):
    n += 1
    y += n


f(1.0, 2)
