import retrograd as rg
from retrograd import Stack, fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def f(s: Stack[Point, 4], x: fixed, n: int):
    rg.push(s, Point(x, n))


f([], 1.5, 2)
