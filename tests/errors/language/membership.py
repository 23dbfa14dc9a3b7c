from retrograd import fixed, reversible


@reversible
def f(y: fixed, n: int):
    if n in n:
        y += 1


f(0.0, 1)
