from retrograd import fixed, reversible
from retrograd.testing import assert_no_garbage


@reversible
def f(y: fixed, x: fixed):
    t = 0.0
    t += x * x
    y += t


assert_no_garbage(f, 0.0, 3.0)
