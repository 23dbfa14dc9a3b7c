import retrograd as rg
from retrograd import fixed


@rg.functional
def f(x: fixed):
    halves = []
    while x > 1:
        x = x / 2
        halves.append(x)
    return halves


f(4.0)
