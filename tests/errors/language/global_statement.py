from retrograd import fixed, reversible

count = 0


@reversible
def f(y: fixed):
    global count
    y += 1


f(0.0)
