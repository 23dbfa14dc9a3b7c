import retrograd as rg
from retrograd import uint


@rg.functional
def f(x: uint) -> bool:
    return x > 3


f(1)
