from retrograd import fixed, reversible


@reversible
def apply(y: fixed, fs):
    for g in fs:
        g(y)


@reversible
def f(y: fixed, x: fixed):
    t = 2 * x

    def add(out: fixed):
        out += t

    both = [add, ~add]
    del t
    apply(y, both)


f(0.0, 1.0)
