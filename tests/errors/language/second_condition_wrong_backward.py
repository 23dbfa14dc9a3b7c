from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    if (x > 0, y > 10):
        y += x


(~f)(20.0, -2.0)
