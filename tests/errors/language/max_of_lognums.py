import retrograd as rg
from retrograd import Array, lognum, reversible


@reversible
def f(y: lognum, x: Array[lognum, "n"]):
    y *= rg.max(x)


f(1.0, [1.0, 2.0])
