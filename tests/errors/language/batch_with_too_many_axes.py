import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    y += x * x


rg.vmap(f, in_axes=(None, 0, 0))(0.0, [1.0, 2.0])
