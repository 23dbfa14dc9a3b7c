from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += (t := x * x) + t


f(0.0, 1.0)
