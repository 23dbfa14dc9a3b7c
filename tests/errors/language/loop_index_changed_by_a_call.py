from retrograd import fixed, reversible


@reversible
def shift(n: int):
    n += 1


@reversible
def f(y: fixed):
    for i in range(3):
        shift(i)
        y += i


f(1.0)
