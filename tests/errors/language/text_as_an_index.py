from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, x: Array[fixed, "n"]):
    y += x["first"]


f(0.0, [1.0, -2.0])
