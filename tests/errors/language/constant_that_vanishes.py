from retrograd import fixed, reversible


@reversible
def attraction(y: fixed, m: fixed, r: fixed):
    y += 6.674e-11 * m / (r * r)


attraction(0.0, 5.972e6, 6.371)
