import retrograd as rg
from retrograd import reversible


@reversible
def f(c: bool, x: bool):
    rg.cnot(c, x)


f(True, False)
