from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += x


f(2e9, 2e9)
