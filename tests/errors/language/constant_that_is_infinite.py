from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    y += float("inf")


f(0.0)
