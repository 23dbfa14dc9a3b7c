from retrograd import fixed, reversible


@reversible
def power(y: fixed, x: int):
    y += 2 * x**-2


power(0.0, 7)
