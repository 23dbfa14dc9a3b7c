from retrograd import reversible


@reversible
def f(y: int, x: int):
    if x > 0:
        t = x * 2
    y += t


f(0, 3)
