from retrograd import reversible


@reversible
def f(x: int):
    x >>= 1


f(5)
