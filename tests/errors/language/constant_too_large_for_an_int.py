from retrograd import reversible


@reversible
def f(n: int):
    n += 2**70


f(0)
