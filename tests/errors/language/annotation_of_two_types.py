from retrograd import fixed, reversible


@reversible
def f(x: fixed | int):
    x += 1


f(1.0)
