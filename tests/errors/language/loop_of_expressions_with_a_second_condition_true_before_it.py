from retrograd import reversible


@reversible
def f(n: int, steps: int):
    while (n * n > 0, steps * steps > 0):
        n -= 1
        steps += 1


f(3, 1)
