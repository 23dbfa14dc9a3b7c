from retrograd import lognum, reversible


@reversible
def f(n: int, x: lognum):
    if x:
        n += 1


f(1, 2.0)
