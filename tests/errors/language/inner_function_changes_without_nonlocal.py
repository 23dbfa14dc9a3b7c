from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    def add(out: fixed):
        y += out

    add(x)


f(0.0, 1.0)
