from retrograd import Array, data, fixed, functional


@data
class Layer:
    w: Array[fixed, 2]


@data
class Constant:
    b: fixed


@functional
def f(part: Layer | Constant):
    return 1.0


f(Constant(1.0))
