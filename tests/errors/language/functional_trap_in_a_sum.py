import retrograd as rg
from retrograd import fixed

@rg.functional
def shifted(x: fixed) -> fixed:
    return rg.asin(x) + 1.0

@rg.reversible
def f(y: fixed, x: fixed):
    y += shifted(x)

rg.run(f, 0.0, 3.0)
