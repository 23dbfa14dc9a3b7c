import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, n: int):
    y += n


rg.jvp(f, (0.0, 2), {"n": 1.0})
