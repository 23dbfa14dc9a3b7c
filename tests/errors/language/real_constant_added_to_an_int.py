from retrograd import reversible


@reversible
def f(n: int):
    n += 0.5


f(1)
