import retrograd as rg
from retrograd import Array, fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed

    @reversible
    def add(self, other):
        self.x += other.x
        self.y += other.y


@reversible
def f(p: Point, q: Point, ps: Array[Point]):
    p.add(q)
    ps[1].add(q)
    for c in ps:
        c.x += q.y
    t = Point(1.0, q.x)
    p.add(t)
    rg.rot(p.x, p.y, 0.5)


ARGUMENTS = [(Point(1.0, 2.0), Point(3.0, 4.0), [Point(0.5, 0.5), Point(2.0, 2.0)])]
