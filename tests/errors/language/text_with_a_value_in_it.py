from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    y += f"{y}"


f(0.0)
