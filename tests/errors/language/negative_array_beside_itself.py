from retrograd import Array, fixed, reversible


@reversible
def dot(s: fixed, x: Array[fixed, "n"], y: Array[fixed, "n"]):
    for i in range(len(x)):
        s += x[i] * y[i]


@reversible
def f(s: fixed, x: Array[fixed, 3]):
    dot(s, -x, x)


f(0.0, [1.0, 2.0, 3.0])
