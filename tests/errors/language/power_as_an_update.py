from retrograd import fixed, reversible


@reversible
def f(x: fixed):
    x **= 2


f(8.0)
