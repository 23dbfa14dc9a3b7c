from retrograd import fixed, lognum, reversible


@reversible
def f(n: int, x: lognum, y: fixed):
    if x < y:
        n += 1


f(1, 2.0, 3.0)
