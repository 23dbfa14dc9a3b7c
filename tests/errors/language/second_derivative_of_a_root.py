import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def energy(y: fixed, x: Array[fixed, "n"]):
    with rg.routine() as r:
        length = rg.sqrt(rg.sum(x * x))
    y += length**2
    ~r


rg.hessian(energy, "x")(0.0, [0.0, 0.0])
