import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def dot(y: fixed, a: Array[fixed, "n"], b: Array[fixed, "n"]):
    y += rg.sum(a * b)


dot(0.0, [1.0, 2.0], [1.0, 2.0, 3.0])
