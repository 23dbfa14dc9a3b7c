from retrograd import fixed, reversible


@reversible
def f(y: int, x: fixed):
    y += round(x, 2)


f(0, 1.255)
