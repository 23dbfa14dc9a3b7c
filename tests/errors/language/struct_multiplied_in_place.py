import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def f(p: Point):
    p *= 2


f(Point(1.0, 2.0))
