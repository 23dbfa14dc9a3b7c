import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed):
    s = rg.stack(fixed, -3)
    rg.push(s, x)


f(1.0)
