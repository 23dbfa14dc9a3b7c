import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, p: fixed, n: int, a: Array[fixed, 3]):
    with rg.routine() as r:
        x = p + 1
        with rg.checkpoints(states=3):
            for _ in range(n):
                t = x * x
                x = t
    y += t
    ~r


f(0.0, 0.5, 3, [1.0, 2.0, 3.0])
