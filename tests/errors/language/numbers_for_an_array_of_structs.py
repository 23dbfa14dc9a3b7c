import retrograd as rg
from retrograd import Array, fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def shift(ps: Array[Point]):
    for p in ps:
        p.x += 1.0


shift([Point(0.0, 0.0), 3.0])
