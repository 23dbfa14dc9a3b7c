from retrograd import fixed, reversible


@reversible
def f(x: fixed):
    x **= -1


f(4.0)
