import retrograd as rg
from retrograd import fixed, lognum, reversible


@reversible
def f(y: fixed, x: lognum):
    y += rg.sin(x)


f(0.0, 2.0)
