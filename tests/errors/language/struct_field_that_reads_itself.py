import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def double(p: Point):
    p.x += p.x


double(Point(1.0, 2.0))
