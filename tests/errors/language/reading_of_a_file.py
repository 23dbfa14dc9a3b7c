from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    y += float(open("rate.txt").read())


f(0.0)
