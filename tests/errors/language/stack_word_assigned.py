import retrograd as rg
from retrograd import reversible


@reversible
def f(s: rg.Stack[int, 5]):
    s[0] = 4


f([3])
