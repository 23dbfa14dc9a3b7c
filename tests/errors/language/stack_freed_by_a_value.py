import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    s = rg.stack(fixed, 4)
    rg.free(s, 0)


f(0.0)
