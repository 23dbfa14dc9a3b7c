import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed

    @reversible
    def add(self, other):
        self.x += other.x
        self.y += other.y


@reversible
def double(p: Point):
    p.add(p)


double(Point(1.0, 2.0))
