from retrograd import Array, fixed, reversible


@reversible
def pick(y: fixed, xs: Array[fixed], i: int):
    y += xs[i]


(~pick)(0.0, [1.0, 2.0, 3.0], -1)
