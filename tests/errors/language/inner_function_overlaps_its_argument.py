from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    def add(out: fixed):
        out += y * x

    add(y)


f(0.0, 1.0)
