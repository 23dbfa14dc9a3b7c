from retrograd import fixed, reversible


@reversible(stack=100)
def f(y: fixed, n: int):
    if n > 0:
        m = n - 1
        y += m
        f(y, m)


f(0.0, 1000)
