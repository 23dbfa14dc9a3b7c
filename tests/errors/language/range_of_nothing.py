from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    for i in range():
        y += i


f(1.0)
