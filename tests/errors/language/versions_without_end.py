import retrograd as rg
from retrograd import fixed, reversible


@reversible
def count(y: fixed, n: rg.static):
    y += n
    count(y, n + 1)


count(0.0, 0)
