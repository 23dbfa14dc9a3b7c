from retrograd import Array, fixed, reversible, run


@reversible
def f(y: fixed, xs: Array[fixed, 3]):
    y += xs[0]


run(f, 0.0, [0.5, 1e-11, 1e-9], precision="error")
