import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def turn(p: Point):
    p += Point(0.0 - p.y, p.x)


turn(Point(1.0, 2.0))
