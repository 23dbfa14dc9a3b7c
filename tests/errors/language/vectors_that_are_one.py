import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed, z: fixed):
    y += x * x * z


rg.hvp(f, ("x", "z"))((0.0, 1.0, 2.0), 1.0)
