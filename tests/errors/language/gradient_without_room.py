import retrograd as rg
from retrograd import fixed, reversible


@reversible
def powers(y: fixed, x: fixed, n: int):
    with rg.routine() as r:
        t = x * x
        t += x
    if n > 0:
        y += t * n
        powers(y, t, n - 1)
    ~r


rg.reversible_gradient(powers, "x", keep=2)(0.0, 0.5, 4, 0.0)
