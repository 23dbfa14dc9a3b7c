from retrograd import reversible


@reversible
def f(y, x):
    y += x


f(0.0, {"x": 1.0})
