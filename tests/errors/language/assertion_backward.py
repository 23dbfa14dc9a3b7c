from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += x
    assert y * 2 <= x + 1


(~f)(3.0, 1.5)
