import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def add(y: fixed, x: fixed, scale: rg.static = 2):
    y += scale * x


@reversible
def f(y: fixed, x: fixed, a: Array[fixed]):
    add(y, x)
    add(a[0], a[1], 3)
    ~add(y, a[0], scale=1)
    add.each(a, x)
    rg.swap(y, a[2])
    y += add(x) * add(a[1], scale=3)


ARGUMENTS = [(1.0, 2.0, [1.0, 2.0, 3.0])]
