import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@rg.struct
class Speed:
    x: fixed
    y: fixed


@reversible
def f(p: Point, v: Speed):
    p += v


f(Point(1.0, 2.0), Speed(1.0, 2.0))
