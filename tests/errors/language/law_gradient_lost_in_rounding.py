import retrograd as rg
from retrograd import fixed, reversible
from retrograd.testing import check_gradient


@reversible
def f(y: fixed, x: fixed):
    y += rg.sqrt(x * x)


check_gradient(f, 0.0, 0.0005)
