from retrograd import fixed, reversible


@reversible(precision="error")
def f(y: fixed, x: fixed):
    y += x + 1e-9


f(0.0, 1.0)
