import retrograd as rg
from retrograd import Array, fixed

WEIGHTS = [[1.0, 2.0], [3.0]]

@rg.reversible
def f(total: fixed, xs: Array[fixed]):
    for i in range(len(xs)):
        total += xs[i] * WEIGHTS

rg.run(f, 0.0, [1.0, 2.0])
