from retrograd import reversible


@reversible
def f(n: int):
    n += 1


f(0xCBF29CE484222325)
