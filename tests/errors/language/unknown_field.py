import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def shift(p: Point):
    p.xx += 1.0


shift(Point(0.0, 0.0))
