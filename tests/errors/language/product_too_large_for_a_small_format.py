from retrograd import fixed, reversible


@reversible(format="Q8.8")
def f(y: fixed, x: fixed):
    y += x * x


f(0.0, 15.0)
