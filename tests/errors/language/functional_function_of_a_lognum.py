import retrograd as rg
from retrograd import lognum


@rg.functional
def f(x: lognum) -> bool:
    return x > 3


f(1)
