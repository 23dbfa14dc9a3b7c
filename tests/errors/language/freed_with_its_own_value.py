import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    t = 2 * y
    rg.free(t, t)


f(1.0)
