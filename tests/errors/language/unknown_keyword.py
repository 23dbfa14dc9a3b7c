from retrograd import fixed, reversible


@reversible
def f(total: fixed, x: fixed):
    total += x


f(totl=1.0, x=2.0)
