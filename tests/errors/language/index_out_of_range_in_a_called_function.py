from retrograd import Array, fixed, reversible


@reversible
def pick(y: fixed, xs: Array[fixed], i: int):
    y += xs[i]


@reversible
def f(y: fixed, xs: Array[fixed]):
    for i in range(4):
        pick(y, xs, i)


f(0.0, [1.0, 2.0, 3.0])
