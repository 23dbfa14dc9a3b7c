from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed]):
    for x in xs:
        y += x * x


f(0.0, [1.0, 60000.0])
