from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    y += "1"


f(1.0)
