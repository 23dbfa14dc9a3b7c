from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    for i in range(3):
        y += i
    else:
        y += 1


f(0.0)
