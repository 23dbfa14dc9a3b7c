import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def total(y: fixed, v: Array[fixed, "n"]):
    for x in v:
        y += x * x


rg.jvp(total, (0.0, [1.0, 2.0, 3.0]), {"v": [1.0, 0.0]})
