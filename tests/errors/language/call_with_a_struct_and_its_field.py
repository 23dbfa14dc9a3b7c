import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def pull(p: Point, x: fixed):
    p.x += x


@reversible
def f(p: Point):
    pull(p, p.x)


f(Point(1.0, 2.0))
