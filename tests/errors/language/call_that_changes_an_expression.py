from retrograd import reversible


@reversible
def advance(i: int):
    i += 1


@reversible
def f(y: int, x: int):
    advance(x + 1)
    y += x


f(0, 1)
