from retrograd import Array, fixed, reversible


@reversible
def copy(a: Array[fixed, "n"], b: Array[fixed, "n"]):
    for i in range(len(a)):
        a[i] += b[i]


@reversible
def f(xs: Array[fixed, "n"], n: int):
    copy(xs[1 : n + 1], xs[:n])


f([1.0, 2.0, 3.0, 4.0], 2)
