from retrograd import Array, fixed, reversible


@reversible
def scale(ys: Array[fixed]):
    ys /= 2.0


scale([1.0, 2.0])
