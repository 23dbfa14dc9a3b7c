import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@rg.struct
class Size:
    x: fixed
    y: fixed


@reversible
def shift(p: Point):
    p.x += 1


@reversible
def f(s: Size):
    shift(s)


f(Size(1.0, 2.0))
