from retrograd import reversible


@reversible
def f(x: int):
    x //= 2


f(5)
