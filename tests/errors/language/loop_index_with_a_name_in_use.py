from retrograd import fixed, reversible


@reversible
def f(y: fixed, i: int):
    for i in range(3):
        y += i


f(1.0, 2)
