import math

import retrograd as rg
from retrograd import fixed, reversible


@rg.struct
class Point:
    x: fixed
    y: fixed

    def norm(self):
        return math.hypot(self.x, self.y)


@reversible
def f(y: fixed, p: Point):
    y += p.norm()


f(0.0, Point(3.0, 4.0))
