from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    def square(z: fixed):
        return z * z

    y += square(x)


f(0.0, 2.0)
