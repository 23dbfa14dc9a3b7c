from retrograd import Array, fixed, reversible


@reversible
def add_to(y: fixed, xs: Array[fixed, "n"]):
    for x in xs:
        y += x


@reversible
def f(xs: Array[fixed, "n"]):
    add_to(xs[0], xs)


f([1.0, 2.0])
