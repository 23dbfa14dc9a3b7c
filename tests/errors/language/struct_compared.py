import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def f(n: int, p: Point, q: Point):
    if p == q:
        n += 1


f(0, Point(1.0, 2.0), Point(1.0, 2.0))
