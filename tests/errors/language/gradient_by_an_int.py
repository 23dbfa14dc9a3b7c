import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed, n: int):
    y += x * n


rg.reversible_gradient(f, ("x", "n"))
