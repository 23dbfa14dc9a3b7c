from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    def grow(z: fixed):
        z += y

    grow(y)


f(1.0, 2.0)
