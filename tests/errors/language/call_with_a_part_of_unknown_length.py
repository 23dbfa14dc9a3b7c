from retrograd import Array, fixed, reversible


@reversible
def add_up(y: fixed, xs: Array[fixed, "n"]):
    for x in xs:
        y += x


@reversible
def f(y: fixed, xs: Array[fixed, "n"], n: int):
    add_up(y, xs[:n])


f(0.0, [1.0, 2.0, 3.0], 2)
