import retrograd as rg
from retrograd import reversible


@reversible
def square(y, x):
    y += x * x


rg.reversible_gradient(square, "x")(0, 3, 0.0)
