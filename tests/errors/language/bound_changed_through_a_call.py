from retrograd import fixed, reversible


@reversible
def shrink(n: int):
    n -= 1


@reversible
def f(y: fixed, n: int):
    for i in range(n):
        y += i
        shrink(n)


f(1.0, 2)
