from retrograd import reversible


@reversible
def f(n: int):
    t = 0
    for i in range(n):
        t += i
    n += 1


f(4)
