from retrograd import reversible


@reversible
def f(s: int):
    s ^= s >> 7


f(1)
