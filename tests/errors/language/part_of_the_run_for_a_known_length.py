from retrograd import Array, fixed, reversible


@reversible
def turn(xs: Array[fixed, 2]):
    xs[0], xs[1] = xs[1], xs[0]


@reversible
def f(xs: Array[fixed, "n"], n: int):
    turn(xs[:n])


f([1.0, 2.0, 3.0], 2)
