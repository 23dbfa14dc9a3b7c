from retrograd import Array, fixed, reversible


@reversible
def f(x: Array[fixed, "n"]):
    x *= 2


f([1.0, 2.0])
