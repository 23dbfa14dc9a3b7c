import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed


@reversible
def f(y: fixed, a: fixed):
    p = Point(a, a, a)
    y += p.x


f(0.0, 1.0)
