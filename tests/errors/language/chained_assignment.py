from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    a = b = 1.0
    y += a + b


f(0.0)
