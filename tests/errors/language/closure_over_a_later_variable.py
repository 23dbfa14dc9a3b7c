from retrograd import fixed, reversible


def make():
    @reversible
    def f(y: fixed):
        y += step

    f(0.0)
    step = 1.0


make()
