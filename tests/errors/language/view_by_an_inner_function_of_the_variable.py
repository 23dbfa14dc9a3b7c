import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(x: fixed, y: fixed):
    def add(out: fixed):
        out += x

    with rg.view(-x) as m:
        add(y)
        m += 1


f(1.0, 2.0)
