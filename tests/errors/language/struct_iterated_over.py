import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def f(y: fixed, p: Point):
    for v in p:
        y += v


f(0.0, Point(1.0, 2.0))
