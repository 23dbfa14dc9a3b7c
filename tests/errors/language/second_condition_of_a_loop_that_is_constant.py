from retrograd import reversible


@reversible
def f(n: int):
    while (n > 0, True):
        n -= 1


f(3)
