from retrograd import Array, fixed, reversible


@reversible
def norm(s: fixed, xs: Array[fixed, "n"]):
    s += xs[0] * xs[1]


@reversible
def f(xs: Array[fixed, "n"]):
    xs[1] += norm(xs)


f([1.0, 2.0])
