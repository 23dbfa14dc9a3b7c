from retrograd import fixed, reversible


@reversible
@reversible
def f(y: fixed):
    y += 1
