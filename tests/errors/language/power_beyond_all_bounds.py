from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    y += 9**9**9


f(0.0)
