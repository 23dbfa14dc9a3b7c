import retrograd as rg
from retrograd import lognum, reversible


@reversible
def f(z: lognum, x: lognum):
    z *= x**1.5


rg.hessian(f)(1.0, 2.0)
