import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: Array[fixed], a: Array[fixed], i: int, j: int):
    y += a[0] * 2 + 1
    y[1:] -= rg.exp(a[1, :-1])
    t = a[1] * a[1]
    y += t
    del t
    a[i, j] += y[j]
    rg.swap(a[0], a[1])
    s = rg.zeros(2)
    s[0] += y[0]
    y[1] += s[0]
    s[0] -= y[0]


ARGUMENTS = [([1.0, 2.0, 3.0], [[1.0, 2.0, 0.5], [0.25, 1.0, 2.0]], 1, 2), ([1.0, 2.0], [[1.0, 0.5], [2.0, 3.0]], 0, 0)]
