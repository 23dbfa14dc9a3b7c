from retrograd import reversible


@reversible
def f(y: int, n: int):
    for i in range(n):
        y += i
    y += i


f(0, 3)
