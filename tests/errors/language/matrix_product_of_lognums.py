from retrograd import Array, lognum, reversible


@reversible
def f(y: lognum, a: Array[lognum, "n"], b: Array[lognum, "n"]):
    y *= a @ b


f(1.0, [], [])
