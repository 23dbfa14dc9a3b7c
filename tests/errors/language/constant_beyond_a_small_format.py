from retrograd import fixed, reversible


@reversible(format="Q4.4")
def f(y: fixed):
    y += 100.0


f(0.0)
