from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    for i in range(x):
        y += i


f(0.0, 3.0)
