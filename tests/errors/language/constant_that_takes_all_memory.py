from retrograd import reversible


@reversible
def shift(x: int):
    x += 1 << 10**12


shift(0)
