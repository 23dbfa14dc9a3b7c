from retrograd import fixed, reversible


@reversible
def attraction(y: fixed, m: fixed, r: fixed):
    y += m / (r * r) + 6.674e-11


attraction(0.0, 5.972e6, 6.371)
