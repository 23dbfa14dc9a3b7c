import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    with rg.routine() as r:
        t = rg.sqrt(x * x + 1)
        with rg.routine() as s:
            u = t * x
        v = u + t
        v += u
        v -= u
        ~s
        w = t + 1
    y += t * w
    ~r
    r()
    y -= t
    ~r


ARGUMENTS = [(1.0, 2.0)]
