import retrograd as rg
from retrograd import Stack, fixed, reversible


@rg.struct
class Pile:
    words: Stack[fixed, 2]


@reversible
def f(p: Pile, n: int):
    n += len(p.words)


f(Pile([1.0, 2.0, 3.0]), 0)
