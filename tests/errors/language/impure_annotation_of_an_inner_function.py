from retrograd import fixed, reversible


def kind():
    return fixed


@reversible
def f(y: fixed):
    def g(z: kind()):
        z += 1

    g(y)


f(0.0)
