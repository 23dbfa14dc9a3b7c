from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, a: Array[fixed, "n"], i: int):
    t = a[0] * 2
    a[i] += 1
    y += t


f(0.0, [1.0, 2.0], 1)
