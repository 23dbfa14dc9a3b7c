from retrograd import reversible


@reversible
def f(b: bool, n: int):
    b ^= n


f(False, 2)
