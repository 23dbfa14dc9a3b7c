from retrograd import fixed, reversible

RATES = {"a": 1.0, "b": 2.0}


@reversible
def f(y: fixed, x: fixed):
    for name, rate in RATES:
        y += rate * x


f(0.0, 1.0)
