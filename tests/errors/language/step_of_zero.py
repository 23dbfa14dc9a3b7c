from retrograd import fixed, reversible


@reversible
def f(y: fixed, n: int):
    for i in range(0, n, 0):
        y += i


f(0.0, 3)
