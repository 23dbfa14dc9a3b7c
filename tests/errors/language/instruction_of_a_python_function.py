import math

import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += softplus(x)


softplus = rg.instruction("softplus", lambda x, w: math.log(1 + math.exp(x)))
f(0.0, 2.0)
