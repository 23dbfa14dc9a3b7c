import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def f(n: int, p: Point):
    if p:
        n += 1


f(0, Point(1.0, 2.0))
