import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += x * x


@f.adjoint
def back(y: fixed, x: fixed, d_y: fixed, d_x: fixed):
    d_x += 2 * x * d_y


rg.gradient_report(f)(0.0, 1.0)
