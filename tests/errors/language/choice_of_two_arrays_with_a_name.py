from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, n: int, a: Array[fixed, 2], b: Array[fixed, 2]):
    t = a if n > 0 else b
    y += t[0]


f(0.0, 1, [1.0, 2.0], [3.0, 4.0])
