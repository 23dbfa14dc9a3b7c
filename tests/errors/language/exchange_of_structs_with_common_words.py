import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def f(x: fixed, y: fixed):
    rg.swap(Point(x, y), Point(y, x))


f(1.0, 1.5)
