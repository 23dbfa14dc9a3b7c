from retrograd import reversible


@reversible
def f(n: int):
    n <<= 2


f(1)
