from retrograd import reversible


@reversible
def f(y: int, x: int):
    y += x % 0


f(0, 7)
