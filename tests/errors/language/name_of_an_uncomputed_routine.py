import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    with rg.routine() as r:
        root = rg.sqrt(x)
    y += root
    ~r
    y += root


f(0.0, 4.0)
