from retrograd import fixed, reversible

COUNT = range(1 << 40)


@reversible
def f(y: fixed):
    for i in COUNT:
        y += i


f(0.0)
