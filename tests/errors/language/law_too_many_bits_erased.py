import retrograd as rg
from retrograd import fixed, reversible
from retrograd.testing import assert_erased_bits_below


@reversible
def f(y: fixed, x: fixed):
    t = x * x
    y += t
    rg.erase(t)


assert_erased_bits_below(64, f, 0.0, 3.0)
