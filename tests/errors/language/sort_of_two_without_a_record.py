from retrograd import reversible


@reversible
def f(x: int, y: int):
    if x > y:
        x, y = y, x


f(3, 1)
