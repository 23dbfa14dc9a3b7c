from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    def y(z: fixed):
        z += 1


f(1.0)
