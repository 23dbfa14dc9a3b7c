from retrograd import fixed, reversible
from retrograd.testing import check_gradient


@reversible
def f(y: fixed, x: fixed):
    y += x * x


@f.adjoint
def back(y: fixed, x: fixed, d_y: fixed, d_x: fixed):
    d_x += x * d_y


check_gradient(f, 0.0, 3.0)
