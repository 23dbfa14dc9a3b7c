from retrograd import fixed, reversible


@reversible
def f(y: fixed, n: int):
    if n in (1, 2, 3):
        y += 1


f(0.0, 1)
