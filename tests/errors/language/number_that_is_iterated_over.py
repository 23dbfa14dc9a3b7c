from retrograd import fixed, reversible


@reversible
def f(y: fixed, n: int):
    for i in n:
        y += i


f(0.0, 3)
