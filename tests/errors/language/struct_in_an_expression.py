import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def add(y: fixed, p: Point, q: Point):
    y += p * q


add(0.0, Point(0.0, 0.0), Point(1.0, 1.0))
