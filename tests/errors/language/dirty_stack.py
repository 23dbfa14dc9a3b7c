import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed):
    s = rg.stack(fixed, 4)
    rg.push(s, x)


f(3.0)
