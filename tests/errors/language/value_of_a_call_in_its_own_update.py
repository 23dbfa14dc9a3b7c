from retrograd import fixed, reversible


@reversible
def square(y: fixed, x: fixed):
    y += x * x


@reversible
def f(y: fixed):
    y += square(y)


f(2.0)
