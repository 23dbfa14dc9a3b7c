from retrograd import fixed, reversible

NAN = float("nan")


@reversible
def f(y: fixed):
    y += NAN


f(0.0)
