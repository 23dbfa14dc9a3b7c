import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += x
    with rg.external():
        print(1 / 0)


f(1.0, 2.0)
