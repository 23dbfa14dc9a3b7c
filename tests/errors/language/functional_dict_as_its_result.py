from retrograd import Array, fixed, functional, reversible


@functional
def f(v):
    return {"w": 2.0 * v}


@reversible
def g(y: fixed, v: Array[fixed, 2]):
    y += f(v)


g(0.0, [1.0, 2.0])
