from retrograd import fixed, reversible, run


@reversible
def f(y: fixed, x: fixed):
    y += x


run(f, 0.0, 0.001, format="Q16.16", precision="error")
