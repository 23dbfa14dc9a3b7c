from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed, "n"]):
    for i, x in enumerate(xs):
        xs[i] += 1
        y += x


f(0.0, [1.0, 2.0])
