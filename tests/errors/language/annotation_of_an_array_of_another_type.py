from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, names: Array[str]):
    y += 1


f(0.0, ["x"])
