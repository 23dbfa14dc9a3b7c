import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += x * x


rg.jvp(f, (0.0, 2.0), {"z": 1.0})
