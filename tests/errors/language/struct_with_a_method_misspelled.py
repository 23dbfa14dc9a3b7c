import retrograd as rg
from retrograd import reversible


@rg.struct
class Counter:
    n: int

    @reversible
    def advance(self):
        self.n += 1


@reversible
def f(c: Counter):
    c.advanced()


f(Counter(0))
