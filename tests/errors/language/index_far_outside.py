from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, n: int, a: Array[fixed, 3]):
    y += a[n + 2**62]


f(0.0, 1, [1.0, 2.0, 3.0])
