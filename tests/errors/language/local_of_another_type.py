from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    t: str = 1.0
    y += t


f(1.0)
