from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    assert 0 < x < 1
    y += x


f(0.0, 2.0)
