"""The laws of reversible functions, for users' own tests; this project tests itself by the same laws.

    (~f)(f(x)) == x           check_inverse, in every word of memory, from the end and from the middle
    ∂L/∂x                     check_gradient, against differences of the same program
    no garbage                assert_no_garbage: only arguments change, and nothing is erased
    bits erased < k           assert_erased_bits_below
    all laws, for all x       check_laws, over random arguments

A law that does not hold raises LawBroken, an AssertionError. With pytest these are fixtures, too: see docs/testing.md.
"""

from retrograd import errors as _errors  # noqa: F401 (registers its codes)
from retrograd.lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__, __file__)
