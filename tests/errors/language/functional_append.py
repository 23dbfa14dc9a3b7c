import retrograd as rg
from retrograd import fixed


@rg.functional
def f(x: fixed):
    while x > 1:
        x = x / 2
    return x


f(4.0)
