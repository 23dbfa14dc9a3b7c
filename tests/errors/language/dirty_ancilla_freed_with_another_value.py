import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    t = 0.0
    t += x * x
    y += t
    rg.free(t, x)


f(1.0, 3.0)
