from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed, z: fixed):
    y += x / z


f(0.0, 1.0, 0.0)
