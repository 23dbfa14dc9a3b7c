from retrograd import Array, lognum, reversible


@reversible
def f(y: lognum, a: Array[lognum, "n"], b: Array[lognum, "n"]):
    y *= a @ b


f(1.0, [1.0, 2.0], [3.0, 4.0])
