from retrograd import fixed, reversible


@reversible
def f(y: fixed, n: int):
    for i in range(n):
        y += i
        n -= 1


f(1.0, 2)
