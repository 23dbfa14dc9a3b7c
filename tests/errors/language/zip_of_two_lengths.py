from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed], ys: Array[fixed]):
    for a, b in zip(xs, ys):
        y += a * b


f(0.0, [1.0, 2.0], [1.0, 2.0, 3.0])
