from retrograd import Array, fixed, reversible


@reversible
def squares(ys: Array[fixed, "n"], xs: Array[fixed, "n"]):
    ys += xs * xs


@reversible
def f(y: fixed, xs: Array[fixed, "n"]):
    y += squares(xs)


f(0.0, [1.0, 2.0])
