import retrograd as rg
from retrograd import Stack, fixed, reversible


@rg.struct
class Pile:
    words: Stack[fixed, 2]


@reversible
def f(s: Stack[Pile, 4], p: Pile):
    rg.push(s, p)


f([], Pile([1.0]))
