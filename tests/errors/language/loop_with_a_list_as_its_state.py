from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed, "n"]):
    history = []
    for x in xs:
        history += [x]
        y += x


f(0.0, [1.0, 2.0])
