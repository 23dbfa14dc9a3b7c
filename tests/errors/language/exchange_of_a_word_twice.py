import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def f(p: Point, x: fixed):
    rg.swap(Point(x, x), p)


f(Point(1.0, 2.0), 1.5)
