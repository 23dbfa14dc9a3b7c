from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, a: Array[fixed, 2], x: fixed):
    y += a @ x


f(0.0, [1.0, 2.0], 3.0)
