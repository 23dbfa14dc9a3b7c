from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    y -= y


f(1.0)
