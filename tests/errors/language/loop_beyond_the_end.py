from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed]):
    for i in range(len(xs)):
        y += xs[i + 2]


f(0.0, [1.0, 2.0])
