import retrograd as rg
from retrograd import fixed, reversible
from retrograd.library import Complex


@reversible
def f(y: fixed, z: Complex):
    y += z.re * z.im


rg.hessian(f)(0.0, 1 + 2j)
