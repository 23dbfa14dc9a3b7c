import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += x


rg.run(f, 1.0, "x", backward=True)
