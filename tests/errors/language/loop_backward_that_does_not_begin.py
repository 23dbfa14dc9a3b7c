from retrograd import reversible


@reversible
def f(n: int, steps: int):
    while (n > 0, steps > 0):
        n -= 1
        steps += 1


(~f)(2, 3)
