from retrograd import reversible


@reversible
def advance(i: int):
    i += 1


@reversible
def f(y: int):
    for i in range(3):
        advance(i)
        y += i


f(0)
