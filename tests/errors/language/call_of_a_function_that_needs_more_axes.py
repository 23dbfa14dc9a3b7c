from retrograd import Array, fixed, reversible


@reversible
def trace(y: fixed, a: Array[fixed, "n", "n"]):
    for i in range(len(a)):
        y += a[i, i]


@reversible
def f(y: fixed, a: Array[fixed, "n", "n"]):
    trace(y, a[0])


f(0.0, [[1.0, 2.0], [3.0, 4.0]])
