from retrograd import reversible


@reversible
def f(n: int, x: int):
    while n < 10 and x > 0:
        n += 1


f(0, 1)
