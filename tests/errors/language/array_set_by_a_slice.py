from retrograd import Array, fixed, reversible


@reversible
def copy_into(y: Array[fixed, "n"], x: Array[fixed, "n"]):
    y[:] = x


copy_into([0.0, 0.0], [1.0, 2.0])
