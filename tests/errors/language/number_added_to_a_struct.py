import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def add(p: Point, q: Point):
    p += 1.0


add(Point(0.0, 0.0), Point(1.0, 1.0))
