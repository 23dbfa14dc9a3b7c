from retrograd import reversible


@reversible
def f(y: int, n: int):
    y += n << -1


f(0, 1)
