from retrograd import Array, fixed, reversible


@reversible
def f(a: Array[fixed], i: int, j: int):
    if a[i] > 0:
        a[j] -= 3.0


f([1.0, 2.0], 0, 0)
