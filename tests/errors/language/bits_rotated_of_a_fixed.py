import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed):
    rg.rol(x, 3)


f(1.0)
