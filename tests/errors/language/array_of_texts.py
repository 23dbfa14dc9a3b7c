import retrograd as rg
from retrograd import reversible


@reversible
def f(y, xs):
    y += rg.sum(xs)


f(0.0, ["a", "b"])
