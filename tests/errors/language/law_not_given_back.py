import retrograd as rg
from retrograd import fixed, reversible
from retrograd.testing import check_inverse


@reversible
def f(y: fixed, x: fixed):
    t = x * x
    y += t
    rg.erase(t)


check_inverse(f, 0.0, 3.0)
