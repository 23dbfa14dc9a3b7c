from retrograd import Array, fixed, reversible


@reversible
def f(a: Array[fixed]):
    a[:-1] += a[1:]


f([1.0, 2.0, 3.0])
