from retrograd import reversible


@reversible
def f(n: int):
    n += 1
    f(n)


f(5)
