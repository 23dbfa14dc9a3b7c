from retrograd import reversible


@reversible
def f(y: int, x: int, n: int):
    y += pow(x, n, 7)


f(0, 2, 10)
