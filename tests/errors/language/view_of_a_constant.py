import retrograd as rg
from retrograd import reversible


@reversible
def f(x: int):
    with rg.view(-3) as m:
        m += x


f(1)
