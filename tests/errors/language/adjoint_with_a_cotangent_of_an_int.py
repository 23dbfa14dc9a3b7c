import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed, n: int):
    y += x * n


@f.adjoint
def back(y: fixed, x: fixed, n: int, d_y: fixed, d_x: fixed, d_n: fixed):
    d_x += d_y * n


rg.grad(f)(0.0, 1.0, 2)
