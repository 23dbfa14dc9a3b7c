import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    t = rg.zeros(2)
    t[0] += x
    y += t[0]
    t[0] -= y


(~f)(1.0, 3.0)
