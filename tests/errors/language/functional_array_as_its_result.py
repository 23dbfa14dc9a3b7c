from retrograd import Array, fixed, functional, reversible


@functional
def f(v):
    return 2.0 * v


@reversible
def g(y: Array[fixed, 2], v: Array[fixed, 2]):
    y += f(v)


g([0.0, 0.0], [1.0, 2.0])
