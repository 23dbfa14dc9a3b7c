import retrograd as rg
from retrograd import reversible


@reversible
def f(x: int):
    for i in range(3):
        with rg.view(-i) as m:
            m += x


f(1)
