from retrograd import reversible


@reversible
def f(y: int, x: int):
    t = x * 2
    if x > 0:
        y += t
        del t


f(0, 3)
