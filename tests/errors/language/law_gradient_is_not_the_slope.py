import retrograd as rg
from retrograd import fixed, reversible
from retrograd.testing import check_gradient


@reversible
def f(y: fixed, x: fixed):
    y += x * x + fixed(rg.floor(x * 65536)) / 65536


check_gradient(f, 0.0, 1.5)
