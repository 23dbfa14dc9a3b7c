import retrograd as rg
from retrograd import Stack, fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def f(s: Stack[Point, 4], x: fixed):
    rg.push(s, Point(x, x))


f([], 1.5)
