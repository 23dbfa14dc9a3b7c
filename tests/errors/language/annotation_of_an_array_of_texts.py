from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, x: Array[str, 2]):
    y += len(x)


f(0.0, ["a", "b"])
