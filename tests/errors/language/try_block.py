from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    try:
        y += 1 / x
    except ZeroDivisionError:
        pass


f(0.0, 0.0)
