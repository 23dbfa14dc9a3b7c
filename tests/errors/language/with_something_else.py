from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    with open("log.txt") as log:
        y += 1


f(0.0)
