import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    rg.erase(y)


(~f)(0.0)
