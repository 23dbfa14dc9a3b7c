from retrograd import fixed, reversible


@reversible
def f(x: fixed, y: fixed):
    if x := y:
        x += 1


f(0.0, 1.0)
