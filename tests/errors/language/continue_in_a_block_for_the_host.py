import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    for i in range(3):
        with rg.external():
            if y > 1:
                continue


f(0.0)
