import retrograd as rg
from retrograd import reversible


@reversible
def f(n: int):
    with rg.view(n / 2) as m:
        m += 1


f(4)
