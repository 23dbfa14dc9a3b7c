from retrograd import Array, fixed, reversible


@reversible
def f(y: fixed, xs: Array[fixed]):
    y += sum([x * x for x in xs])


f(0.0, [1.0, 2.0])
