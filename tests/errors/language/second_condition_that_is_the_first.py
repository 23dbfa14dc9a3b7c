from retrograd import reversible


@reversible
def f(n: int):
    while (n < 10, n < 10):
        n += 1


f(0)
