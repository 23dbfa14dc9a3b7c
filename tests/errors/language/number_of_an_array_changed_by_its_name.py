from retrograd import Array, fixed, reversible


@reversible
def f(xs: Array[fixed, "n"]):
    for x in xs:
        x += 1


f([1.0, 2.0])
