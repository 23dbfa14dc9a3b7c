import retrograd as rg
from retrograd import Array, reversible


@reversible
def f(s: rg.Stack[int, 5], a: Array[int, 5]):
    s, a = a, s


f([3], [1, 2, 3, 4, 5])
