from retrograd import Array, fixed, reversible


@reversible
def f(a: Array[fixed], b: Array[fixed]):
    a += 2 * b


f([1.0, 2.0], [1.0, 2.0, 3.0])
