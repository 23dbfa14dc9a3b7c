from retrograd import fixed, reversible


@reversible
def add(total: fixed, x: fixed):
    total += x


@reversible
def f(y: fixed, x: fixed):
    add(totl=y, x=x)


f(1.0, 2.0)
