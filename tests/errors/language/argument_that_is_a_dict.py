from retrograd import reversible


@reversible
def f(y, x):
    y += x


f(0.0, {1.5: 1.0})
