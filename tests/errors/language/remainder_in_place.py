from retrograd import reversible


@reversible
def f(x: int):
    x %= 7


f(5)
