import retrograd as rg
from retrograd import reversible


@reversible
def f(s: rg.Stack[int, 5]):
    rg.pop(s)


f([3])
