from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    for i in range(3):
        i += 1
        y += i


f(1.0)
