from retrograd import fixed, reversible


def make(steps):
    @reversible
    def f(y: fixed, i: int):
        y += steps[i]

    return f


make(["one", "two"])(0.0, 1)
