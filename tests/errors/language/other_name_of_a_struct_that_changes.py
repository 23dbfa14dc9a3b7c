from retrograd import fixed, reversible, struct


@struct
class Point:
    x: fixed
    y: fixed


@reversible
def f(out: Point, p: Point, v: Point):
    old = p
    p += v
    out += p
    out -= old


f(Point(0.0, 0.0), Point(1.0, 2.0), Point(3.0, 4.0))
