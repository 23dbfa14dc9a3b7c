import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, x: Array[fixed, 2], i: int):
    with rg.unchecked():
        y += x[i]


f(1.0, [2.0, 3.0], 2)
