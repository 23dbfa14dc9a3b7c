from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, x: Array[fixed, "n"]):
    y += sum(v * v for v in x)


f(0.0, [1.0, 2.0])
