from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed]):
    for x in xs:
        if x < 0:
            break
        y += x


f(0.0, [1.0, 2.0])
