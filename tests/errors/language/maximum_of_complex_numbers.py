from retrograd import reversible


@reversible
def f(z: complex, v: complex, w: complex):
    z += max(v, w)


f(0j, 1j, 2j)
