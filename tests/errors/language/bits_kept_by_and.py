from retrograd import reversible


@reversible
def f(x: int, mask: int):
    x &= mask


f(5, 4)
