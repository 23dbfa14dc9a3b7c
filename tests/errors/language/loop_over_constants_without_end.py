import itertools

from retrograd import fixed, reversible

COUNT = itertools.count()


@reversible
def f(y: fixed):
    for i in COUNT:
        y += i


f(0.0)
