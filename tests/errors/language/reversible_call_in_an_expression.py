from retrograd import fixed, reversible


@reversible
def square(y: fixed, x: fixed):
    y += x * x


@reversible
def f(y: fixed, x: fixed):
    y += square(y, x)


f(0.0, 1.0)
