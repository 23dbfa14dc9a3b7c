from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    if (x * x > 4, y * y > 100):
        y += x


(~f)(20.0, 1.0)
