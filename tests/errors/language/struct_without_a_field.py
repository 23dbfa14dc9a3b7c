import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def f(y: fixed):
    p = Point(1.0)
    y += p.x


f(1.0)
