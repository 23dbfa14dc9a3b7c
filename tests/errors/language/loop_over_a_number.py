from retrograd import reversible


@reversible
def f(y: int, n: int):
    for i in n:
        y += i


f(0, 3)
