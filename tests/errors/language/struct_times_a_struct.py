import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def f(p: Point, q: Point, r: Point):
    p += q * r


f(Point(1.0, 2.0), Point(1.0, 2.0), Point(1.0, 2.0))
