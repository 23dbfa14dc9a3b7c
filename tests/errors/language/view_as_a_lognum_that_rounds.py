import retrograd as rg
from retrograd import fixed, lognum, reversible


@reversible
def f(x: fixed, z: lognum):
    with rg.view(lognum(x)) as w:
        w *= z


f(1000.3, 2.0)
