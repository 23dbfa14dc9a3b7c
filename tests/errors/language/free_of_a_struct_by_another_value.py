import retrograd as rg
from retrograd import Stack, fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def f(s: Stack[Point, 2], x: fixed):
    p = rg.pop(s)
    rg.free(p, x)


f([Point(1.0, 2.0)], 1.0)
