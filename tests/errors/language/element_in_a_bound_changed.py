from retrograd import Array, reversible


@reversible
def f(a: Array[int], i: int):
    for k in range(a[0]):
        a[i] += 1


f([3, 2], 0)
