import retrograd as rg
from retrograd import Array, reversible


@reversible
def f(x: int):
    s = rg.stack(Array[int, 2], 5)
    x += len(s)


f(3)
