from retrograd import reversible


@reversible
def f(y: int, n: int):
    if n < 0xFFFF_FFFF_FFFF_FFFF:
        y += 1


f(0, 1)
