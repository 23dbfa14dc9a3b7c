from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += x**0.3


f(0.0, -2.0)
