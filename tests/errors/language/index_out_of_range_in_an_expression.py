from retrograd import Array, fixed, reversible


@reversible
def pick(y: fixed, xs: Array[fixed], i: int):
    y += 2 * xs[2 * i + 1] + 1


pick(0.0, [1.0, 2.0, 3.0], 1)
