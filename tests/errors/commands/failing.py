from retrograd import fixed, reversible

LIMITS = {"low": 1.0}
HIGH = LIMITS["high"]


@reversible
def f(y: fixed):
    y += HIGH
