from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    k = x + 1

    def add(out: fixed):
        out += k

    del k
    add(y)


f(0.0, 1.0)
