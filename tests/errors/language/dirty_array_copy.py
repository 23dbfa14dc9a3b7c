from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed]):
    t = 2 * xs
    t[1] += 1
    y += t[1]


f(1.0, [1.0, 2.0, 3.0])
