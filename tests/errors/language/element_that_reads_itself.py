from retrograd import Array, fixed, reversible


@reversible
def f(a: Array[fixed]):
    a[0] += a[1] * a[0]


f([1.0, 2.0])
