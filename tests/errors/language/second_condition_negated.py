from retrograd import reversible


@reversible
def f(x: int, y: int):
    if (x > 0, y == 0):
        x -= 5
        y += 1


f(3, 0)
