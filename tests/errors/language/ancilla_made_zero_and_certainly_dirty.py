from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    t = 0.0
    t += 2.5
    y += t
    del t


f(1.0)
