from retrograd import reversible


@reversible
def double(y: int, x: int):
    y += 2 * x


double(0, -(10**5000))
