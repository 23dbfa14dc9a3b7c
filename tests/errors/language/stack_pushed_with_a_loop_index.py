import retrograd as rg
from retrograd import reversible


@reversible
def f(s: rg.Stack[int, 5]):
    for i in range(3):
        rg.push(s, i)


f([])
