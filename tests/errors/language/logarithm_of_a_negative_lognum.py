import retrograd as rg
from retrograd import fixed, lognum, reversible


@reversible
def f(y: fixed, x: lognum):
    y += rg.log(x)


f(0.0, -2.0)
