from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    class Pair:
        pass

    y += 1


f(0.0)
