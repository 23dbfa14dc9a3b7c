from retrograd import Array, reversible


@reversible
def f(a: Array[int]):
    a[a[0]] += 1


f([0, 2, 3])
