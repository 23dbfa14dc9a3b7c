import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def shift(p: Point):
    p.x += 1.0


shift(3.0)
