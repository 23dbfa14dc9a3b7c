from retrograd import fixed, reversible


@reversible
def apply(y: fixed, fs):
    for g in fs:
        g(y)


@reversible
def f(y: fixed, x: fixed):
    def add(out: fixed):
        out += y

    apply(y, [add])


f(0.0, 1.0)
