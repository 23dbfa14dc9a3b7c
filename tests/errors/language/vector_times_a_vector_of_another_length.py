from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, a: Array[fixed, "n"], b: Array[fixed, "m"]):
    y += a @ b


f(0.0, [1.0, 2.0], [3.0, 4.0, 5.0])
