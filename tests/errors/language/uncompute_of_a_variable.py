from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += x
    ~x


f(1.0, 2.0)
