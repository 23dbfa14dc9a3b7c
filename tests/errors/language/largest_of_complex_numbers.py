import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, ws: Array[complex, "n"]):
    y += abs(rg.max(ws))


f(0.0, [1j, 2j])
