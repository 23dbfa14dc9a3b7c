from retrograd import fixed, reversible

RATES = iter([0.5, 0.25])


@reversible
def f(y: fixed, x: fixed):
    for r in RATES:
        y += r * x


f(0.0, 1.0)
