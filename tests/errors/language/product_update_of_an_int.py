from retrograd import reversible


@reversible
def scale(n: int):
    n *= 2


scale(2)
