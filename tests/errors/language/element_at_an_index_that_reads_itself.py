from retrograd import Array, fixed, reversible


@reversible
def f(a: Array[fixed], i: int):
    a[i + 1] += a[1 + i]


f([1.0, 2.0], 0)
