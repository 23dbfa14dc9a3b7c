import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    with rg.external():
        for i in range(3):
            if i > 1:
                break
        return


f(0.0)
