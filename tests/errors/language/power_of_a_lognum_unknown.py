from retrograd import lognum, reversible


@reversible
def f(z: lognum, x: lognum, n: int):
    z *= x**n


f(1.0, 2.0, 3)
