from retrograd import fixed, reversible


@reversible
def f(y: fixed, name: str):
    y += 1


f(0.0, "x")
