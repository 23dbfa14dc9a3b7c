import retrograd as rg
from retrograd import uint


@rg.functional
def f(u: uint) -> int:
    def halved(n: int):
        return n >> 1

    return halved(u)


f(1)
