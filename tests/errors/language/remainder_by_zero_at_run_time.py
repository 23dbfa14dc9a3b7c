from retrograd import reversible


@reversible
def f(y: int, x: int, n: int):
    y += x % n


f(0, 7, 0)
