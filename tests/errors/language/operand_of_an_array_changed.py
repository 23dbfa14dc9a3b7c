from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed]):
    t = xs * xs
    xs += 1
    y += t[0]


f(0.0, [2.0])
