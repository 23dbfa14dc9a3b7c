from retrograd import reversible


@reversible
def f(n: int):
    n += 1


f(1.5)
