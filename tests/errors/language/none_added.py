from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    y += None


f(1.0)
