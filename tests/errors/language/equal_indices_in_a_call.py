from retrograd import Array, fixed, reversible


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def f(a: Array[fixed], i: int, j: int):
    add(a[i], a[j])


f([1.0, 2.0, 3.0], 1, 1)
