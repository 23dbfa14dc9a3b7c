from retrograd import fixed, reversible

NAME = "retrograd"


@reversible
def f(y: fixed):
    y += NAME[0]


f(0.0)
